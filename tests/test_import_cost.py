"""Starting is quick: no torch, pandas or NumPy before there is work to do."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "pandas", "numpy", "pyarrow"}


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split()) & HEAVY


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import headscope; headscope.__version__; dir(headscope)") == set()


@pytest.mark.parametrize("arguments", ["--help", "--version", "analyze --help", "list models"])
def test_help_and_lists_load_nothing_heavy(arguments: str) -> None:
    code = f"""
from headscope.cli import app
try:
    app({arguments.split()!r})
except SystemExit:
    pass
"""
    assert loaded_by(code) == set()
