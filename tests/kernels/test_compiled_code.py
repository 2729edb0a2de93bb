"""Code that numba keeps on disk is never older than the functions that are compiled into it."""

from hashlib import sha256
from pathlib import Path

import numba
import pytest
from numba.core.caching import CacheImpl

import headscope.kernels
from headscope.kernels import njit

FOLDER = Path(headscope.kernels.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
IMPORT = "from headscope.kernels."


def describe_callees(file: Path) -> str:
    """What a file must say of the files whose functions it compiles into its own."""
    lines = file.read_text().splitlines()
    names = [line.removeprefix(IMPORT).split()[0] for line in lines if line.startswith(IMPORT)]
    digests = [sha256((FOLDER / f"{name}.py").read_bytes()).hexdigest()[:8] for name in names]
    return ", ".join(f"{name}.py {digest}" for name, digest in zip(names, digests, strict=True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_changes_with_the_functions_that_it_calls(file: Path) -> None:
    """numba compiles a file again when its text changes, not when that of its callees does."""
    if callees := describe_callees(file):
        assert f"# Compiled in: {callees}\n" in file.read_text()


def test_code_is_compiled_without_a_folder_to_keep_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a read-only installation without a home."""
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(add_one)
    assert njit()(add_one)(2) == 3


def add_one(number: int) -> int:
    return number + 1
