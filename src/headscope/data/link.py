"""Links between the words of a text and of its translation, in the Pharaoh format."""

import re
from typing import NamedTuple

__all__ = ["Link", "parse_links"]

LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")


class Link(NamedTuple):
    """Two words that translate each other, counted from 0; a link that is not sure is possible."""

    source: int
    target: int
    is_sure: bool = True


def parse_links(text: str) -> tuple[Link, ...]:
    """The links of a line: "0-1" links source word 0 with target word 1, "0p1" possibly so.

    >>> parse_links("0-0 1p2")
    (Link(source=0, target=0, is_sure=True), Link(source=1, target=2, is_sure=False))
    """
    matches = [LINK.fullmatch(part) for part in text.split()]
    if not all(matches):
        raise ValueError(f"{text!r:.60} is not an alignment in the Pharaoh format")
    return tuple(Link(int(m[1]), int(m[3]), m[2] == "-") for m in matches if m)
