"""Tokens as text in a picture: safe to put in markup, and about how wide they are."""

import re
from unicodedata import combining, east_asian_width
from xml.sax.saxutils import escape

__all__ = ["escape_text", "estimate_width", "shorten", "show_unit"]

LONGEST = 24  # characters of a token that are shown; hovering shows them all
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NARROW, BROAD = frozenset("fijlrtI.,:;!'|()[]`- "), frozenset("mwMWQOG@%—")


def escape_text(text: str) -> str:
    """Text that markup cannot mistake for its own; what XML may not hold at all is replaced.

    >>> escape_text('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return escape(NOT_IN_XML.sub("\ufffd", text), {'"': "&quot;", "'": "&#39;"})


def show_unit(unit: str) -> str:
    """A token as it can be seen: one that is nothing but space would not be.

    >>> show_unit(" "), show_unit("cat")
    ('␣', 'cat')
    """
    return " ".join(unit.split()) or "␣"


def shorten(text: str) -> str:
    """At most so many characters that columns stay narrow.

    >>> shorten("x" * 30)
    'xxxxxxxxxxxxxxxxxxxxxxx…'
    """
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def estimate_width(text: str) -> float:
    """About how wide a text is in a sans-serif font, in units of the font's size.

    >>> estimate_width("ill") < estimate_width("mow") < estimate_width("漢字漢")
    True
    """
    return sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if combining(character):
        return 0.0
    if east_asian_width(character) in "WF":
        return 1.05
    if character in NARROW:
        return 0.36
    return 0.9 if character in BROAD else 0.72 if character.isupper() else 0.58
