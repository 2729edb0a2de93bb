"""Development data that is not part of the project; tests that need it skip where it is absent."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


def shared(place: str) -> Path:
    """A path under ../shared, or a skip with the reason."""
    path = SHARED / place
    if not path.exists():
        pytest.skip(f"development data ../shared/{place} is not on this machine")
    return path


def made_model(name: str) -> Path:
    """The folder of a model that ../shared/models/get.py makes, or a skip with the command."""
    folder = Path(os.environ.get("HEADSCOPE_MODELS", "runs/models")) / name
    if not (folder / "config.json").exists():
        pytest.skip(f"{name} is not here: python ../shared/models/get.py {name} {folder}")
    return folder
