"""Development data that is not part of the project; tests that need it skip where it is absent."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


def shared(place: str) -> Path:
    """A path under ../shared, or a skip with the reason."""
    path = SHARED / place
    if not path.exists():
        pytest.skip(f"development data ../shared/{place} is not on this machine")
    return path
