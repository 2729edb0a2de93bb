"""A picture in SVG: its text made safe and measured, shown in a notebook, saved as a file."""

import re
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from unicodedata import combining, east_asian_width
from xml.sax.saxutils import escape

from headscope.arguments import checked
from headscope.errors import OutputError, suggest
from headscope.files import write_atomically

__all__ = [
    "ENDINGS", "Drawing", "compose", "draw_title", "escape_text", "estimate_width", "put_on",
    "refuse_ending", "shorten", "show_unit", "write_on",
]  # fmt: skip

FONT = "Helvetica, Arial, sans-serif"
ENDINGS = (".svg", ".html", ".png", ".pdf")
PNG_SCALE = 2.0  # dots for a unit: sharp on today's screens and in print
LONGEST = 24  # characters of a token that are shown; hovering shows them all
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NARROW, BROAD = frozenset("fijlrtI.,:;!'|()[]`- "), frozenset("mwMWQOG@%—")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 1.5rem }}
svg {{ max-width: 100%; height: auto }}
</style>
</head>
<body>
{svg}
</body>
</html>
"""


@dataclass(frozen=True)
class Drawing:
    """A picture, whole in itself: no script, no font, nothing to fetch."""

    svg: str = field(repr=False)  # long
    width: int
    height: int
    title: str = "Attention"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        # Notebooks put SVG in an image, where it neither sees the page's colour nor the mouse.
        return self.svg

    @checked
    def save(self, path: str | Path) -> Path:
        """Write the picture as its ending says: .svg, .html, .png or .pdf."""
        path = Path(path)
        refuse_ending(path)
        write_atomically(path, self.encode(path.suffix.lower()))
        return path

    def encode(self, ending: str) -> bytes:
        """The picture as the content of a file with this ending."""
        if ending == ".svg":
            return self.svg.encode()
        if ending == ".html":
            return PAGE.format(title=escape_text(self.title), svg=self.svg).encode()
        import vl_convert  # a large library: only for the forms that need it

        if ending == ".pdf":
            return bytes(vl_convert.svg_to_pdf(self.svg))
        # A PNG is on white: dots do not turn light on a dark page as currentColor does.
        return bytes(vl_convert.svg_to_png(put_on(self.svg, "#fff"), scale=PNG_SCALE))


def compose(
    body: str, width: float, height: float, title: str, about: str = "", style: str = ""
) -> Drawing:
    """A drawing of this markup; `about` is for those who cannot see it."""
    across, down = ceil(width), ceil(height)
    description = f"<desc>{escape_text(about)}</desc>" if about else ""
    rules = f"<style>{style}</style>" if style else ""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}" '
        f'viewBox="0 0 {across} {down}" role="img" font-family="{FONT}" fill="currentColor">'
        f"<title>{escape_text(title)}</title>{description}{rules}{body}</svg>"
    )
    return Drawing(svg, across, down, title)


def draw_title(title: str, margin: float, size: float) -> str:
    """A title in the upper left corner."""
    place = f'x="{margin}" y="{margin + size:.4g}"'
    return f'<text {place} font-weight="bold" font-size="{size}">{escape_text(title)}</text>'


def put_on(svg: str, colour: str) -> str:
    """The picture on a ground of this colour, also where its frame has another shape than it."""
    ground = f'><rect x="-1000%" y="-1000%" width="3000%" height="3000%" fill="{colour}"/>'
    return svg.replace(">", ground, 1)


def refuse_ending(path: Path) -> None:
    """An error for a file that no form of a drawing goes by; early, before the model runs."""
    if path.suffix.lower() not in ENDINGS:
        raise OutputError(
            f"{path} cannot be written: its ending is {path.suffix!r}."
            f"{suggest(path.suffix, ENDINGS)} Expected {', '.join(ENDINGS)}; rename it."
        )


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

    def width(character: str) -> float:
        if combining(character):
            return 0.0
        if east_asian_width(character) in "WF":
            return 1.05
        if character in NARROW:
            return 0.36
        return 0.9 if character in BROAD else 0.72 if character.isupper() else 0.58

    return sum(map(width, text))


def write_on(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour (WCAG's relative luminance).

    >>> write_on("#0072B2"), write_on("#E69F00")
    ('#fff', '#000')
    """
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#fff"
