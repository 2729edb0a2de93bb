"""A large matrix as one image: as marks, the 147,456 cells of 384 heads would stop a browser."""

import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["image_address", "palette"]

# The colours of Vega's scheme "yellowgreenblue", so that image and legend agree.
STOPS = bytes.fromhex("eff9bddbf1b4bde5b594d5b969c5be45b4c22c9ec02182b82163aa23479c1c3185")
SHADES = 256
PIXELS = 3  # of a cell, each way: viewers smooth between pixels, and cells should have edges


def image_address(matrix: NDArray[np.floating[Any]], most: float) -> str:
    """A PNG of the matrix within an address (data:...): 0 darkest, `most` lightest."""
    shades = np.rint((SHADES - 1) * np.clip(matrix / most, 0, 1)).astype(np.uint8)
    shades = shades.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
    return "data:image/png;base64," + b64encode(_encode(shades, palette())).decode()


def palette() -> bytes:
    """The colours of all shades, three bytes each, from the darkest."""
    stops = np.frombuffer(STOPS, np.uint8).reshape(-1, 3)[::-1]  # [stop, channel]
    places = np.linspace(0, len(stops) - 1, SHADES)
    channels: list[NDArray[np.float64]] = [
        np.interp(places, np.arange(len(stops)), stops[:, i]) for i in range(3)
    ]
    colours: NDArray[np.uint8] = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return bytes(colours)


def _encode(shades: NDArray[np.uint8], colours: bytes) -> bytes:
    """PNG with a palette: a row is a filter byte (0: none) and a byte for each cell."""
    height, width = shades.shape
    rows = np.pad(shades, ((0, 0), (1, 0))).tobytes()
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 3, 0, 0, 0])
    parts = {b"IHDR": header, b"PLTE": colours, b"IDAT": zlib.compress(rows, 9), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts.items())


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content).to_bytes(4, "big")
    return len(content).to_bytes(4, "big") + kind + content + check
