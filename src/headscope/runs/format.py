"""The format of a run's folder: its number, and how an older manifest is brought up to date.

To change the format: raise FORMAT, and add the function that makes a manifest of the format before
into one of it, so that older runs can still be read. docs/stability.md lists all formats.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headscope.errors import OutputError

__all__ = ["FORMAT", "upgrade_manifest"]

FORMAT = 4  # raised when an older headscope could not read the folder
# format -> to the next one; sums of format 3 have no rests, which is how they are read anyway
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {3: dict}


def upgrade_manifest(manifest: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest as this version writes it; an error if it is too old, or too new."""
    found = manifest.get("format")
    known = [FORMAT]
    while known[0] - 1 in UPGRADES:
        known.insert(0, known[0] - 1)
    if type(found) is not int or found not in known:
        is_newer = isinstance(found, int) and found > FORMAT
        expected = f"{known[0]} to {FORMAT}" if len(known) > 1 else f"{FORMAT}"
        todo = "update headscope" if is_newer else "run the analysis again with this version of it"
        raise OutputError(
            f"{folder} was written in format {found!r:.20}. This version of headscope expected "
            f"{expected}; {todo}."
        )
    for number in range(found, FORMAT):
        manifest = UPGRADES[number](manifest)
    return {**manifest, "format": FORMAT}
