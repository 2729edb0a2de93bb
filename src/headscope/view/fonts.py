"""The fonts of this machine, by family: a figure with another one would lose all its words."""

import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from headscope.errors import StudyError, suggest

__all__ = ["list_fonts", "refuse_font"]

GENERIC = ("sans-serif", "serif", "monospace")
FOLDERS = {
    "win32": ["${WINDIR}/Fonts", "${LOCALAPPDATA}/Microsoft/Windows/Fonts"],
    "darwin": ["/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts"],
}
ELSEWHERE = ["/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts"]
ENDINGS = (".ttf", ".otf", ".ttc")
FAMILY, UTF_16_PLATFORMS = 1, (0, 3)


@cache
def list_fonts() -> tuple[str, ...]:
    """The families that are installed, by name."""
    found: set[str] = set()
    for place in FOLDERS.get(sys.platform, ELSEWHERE):
        folder = Path(os.path.expandvars(place)).expanduser()
        for path in folder.rglob("*") if folder.is_dir() else ():
            if path.suffix.lower() in ENDINGS:
                found.update(_read_families(path))
    return tuple(sorted(found))


def refuse_font(font: str) -> None:
    """An error for a font that is not installed, with those that are."""
    known = (*GENERIC, *list_fonts())
    if font.casefold() not in {name.casefold() for name in known}:
        raise StudyError(
            f"Font {font!r} is not installed.{suggest(font, known)} Expected one of: "
            f"{', '.join(known)}; choose one of them."
        )


def _read_families(path: Path) -> Iterator[str]:
    """The family names in a TrueType or OpenType file; none where it cannot be read."""
    try:
        data = path.read_bytes()
        starts = [0]
        if data[:4] == b"ttcf":
            (count,) = struct.unpack_from(">I", data, 8)
            starts = list(struct.unpack_from(f">{count}I", data, 12))
        for start in starts:
            yield from _read_names(data, start)
    except (OSError, struct.error):
        return


def _read_names(data: bytes, start: int) -> Iterator[str]:
    (n_tables,) = struct.unpack_from(">H", data, start + 4)
    for number in range(n_tables):
        tag, _, offset, _ = struct.unpack_from(">4sIII", data, start + 12 + 16 * number)
        if tag != b"name":
            continue
        _, count, strings = struct.unpack_from(">HHH", data, offset)
        for record in range(count):
            platform, _, _, name, length, place = struct.unpack_from(
                ">6H", data, offset + 6 + 12 * record
            )
            if name == FAMILY:
                begin = offset + strings + place
                code = "utf-16-be" if platform in UTF_16_PLATFORMS else "latin-1"
                yield data[begin : begin + length].decode(code, errors="ignore").strip("\0")
