"""A picture in SVG: shown in a notebook, saved in the form that a file's ending asks for."""

from dataclasses import dataclass, field
from pathlib import Path

from headscope.errors import OutputError
from headscope.registry import suggest
from headscope.report.drawing_text import escape_text
from headscope.runs.files import write_atomically

__all__ = ["ENDINGS", "Drawing", "refuse_ending"]

ENDINGS = (".svg", ".html", ".png", ".pdf")
PNG_SCALE = 2.0  # dots for a unit: sharp on today's screens and in print

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

    def save(self, path: str | Path) -> Path:
        """Write the picture as its ending says: .svg, .html, .png or .pdf."""
        path = Path(path)
        refuse_ending(path)
        write_atomically(path, self._convert(path.suffix.lower()))
        return path

    def _convert(self, ending: str) -> bytes:
        if ending == ".svg":
            return self.svg.encode()
        if ending == ".html":
            return PAGE.format(title=escape_text(self.title), svg=self.svg).encode()
        import vl_convert  # a large library: only for the forms that need it

        if ending == ".pdf":
            pdf: bytes = vl_convert.svg_to_pdf(self.svg)
            return pdf
        png: bytes = vl_convert.svg_to_png(self._on_white(), scale=PNG_SCALE)
        return png

    def _on_white(self) -> str:
        """The picture on paper: dots do not turn light on a dark page as currentColor does."""
        start = self.svg.index(">") + 1
        return f'{self.svg[:start]}<rect width="100%" height="100%" fill="#fff"/>{self.svg[start:]}'


def refuse_ending(path: Path) -> None:
    """An error for a file that no form of a drawing goes by; early, before the model runs."""
    if path.suffix.lower() not in ENDINGS:
        raise OutputError(
            f"{path} cannot be written: its ending is {path.suffix!r}."
            f"{suggest(path.suffix, ENDINGS)} Expected {', '.join(ENDINGS)}; rename it."
        )
