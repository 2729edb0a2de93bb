"""Figures and drawings for a paper: of a given size, in a given font, palette and background."""

import re
from dataclasses import dataclass, replace
from logging import getLogger
from math import ceil
from typing import Any

from headscope.errors import StudyError, shorten
from headscope.view.svg import Drawing, escape_text, put_on

__all__ = ["PaperStyle", "fit_figure", "read_length", "read_size", "style_drawing"]

log = getLogger("headscope")

UNITS = {"cm": 96 / 2.54, "mm": 96 / 25.4, "in": 96.0, "pt": 96 / 72, "px": 1.0}  # in pixels
LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(cm|mm|in|pt|px)?\s*")
SIZE = re.compile(r"\s*([\d.]+)\s*x\s*([\d.]+)\s*(cm|mm|in|pt|px)?\s*")
LONGEST = 20_000  # pixels: five metres, a picture of a gigabyte
NARROWEST, LOWEST = 0.35, 0.6  # of a figure's own panels: below it labels lie on each other
ZOOMS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
READABLE, NEAR = 0.6, 0.03
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|[a-zA-Z]+")
SCHEMES = (
    *("viridis", "magma", "inferno", "plasma", "cividis", "yellowgreenblue"),
    *("greys", "blues", "greens", "oranges", "purples", "reds"),
    *("tableau10", "category10", "set2", "dark2"),
)
CATEGORIES = ("tableau10", "category10", "set2", "dark2")


GENERIC = ("sans-serif", "serif", "monospace")
SAMPLE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="30">'
    '<text y="20" font-family="{}">Will a jug of quince move? 123</text></svg>'
)


@dataclass(frozen=True)
class PaperStyle:
    """How a picture is to look; sizes in pixels of 1/96 inch, None for its own."""

    width: float | None = None
    height: float | None = None
    font: str | None = None
    palette: str | None = None  # a scheme, or colours with commas
    background: str | None = None  # a colour, or transparent

    def __post_init__(self) -> None:
        if self.font is not None:
            refuse_font(self.font)
        grounds = [] if self.background is None else [self.background]
        for colour in (*self.colours, *grounds):
            if not COLOUR.fullmatch(colour):
                raise StudyError(
                    f"Colour {colour!r} cannot be read. Expected a name (white) or a code "
                    f"(#0072B2); use one of these."
                )

    @property
    def scheme(self) -> str | None:
        """The name of the palette, if it has one."""
        return self.palette if self.palette in SCHEMES else None

    @property
    def colours(self) -> list[str]:
        """The palette's own colours; none where it is a scheme."""
        if self.palette is None or self.scheme:
            return []
        colours = [colour.strip() for colour in self.palette.split(",")]
        if len(colours) == 1 and not colours[0].startswith("#"):
            raise StudyError(
                f"No palette {self.palette!r}. Expected one of {', '.join(SCHEMES)}, or colours "
                f"separated by commas, such as #0072B2,#D55E00; choose one, or write colours."
            )
        return colours


def refuse_font(font: str) -> None:
    """An error for a font that is not installed: words in it look as in any other font."""
    import vl_convert  # a large library: only to draw

    def draw(*families: str) -> bytes:
        return bytes(vl_convert.svg_to_png(SAMPLE.format(escape_text(", ".join(families)))))

    quoted = "'" + font.replace("'", "") + "'"
    is_installed = any(draw(quoted, other) != draw(other) for other in ("serif", "monospace"))
    if font.casefold() not in GENERIC and not is_installed:
        raise StudyError(
            f"Font {shorten(font)!r} is not installed. Expected the name of an installed font, or "
            f"one of {', '.join(GENERIC)}; choose another."
        )


def read_length(value: float | str | None) -> float | None:
    """A length in pixels of 1/96 inch.

    >>> read_length("2.54cm"), read_length(300), read_length(None)
    (96.0, 300.0, None)
    """
    if value is None:
        return None
    match = LENGTH.fullmatch(str(value))
    length = float(match[1]) * UNITS[match[2] or "px"] if match else 0.0
    if not 0 < length <= LONGEST:
        raise StudyError(
            f"Length {shorten(value)!r} cannot be used. Expected a number and a unit, such as 8cm, "
            f"80mm, 3in, 240pt or 300px, and at most {LONGEST:,} pixels; write it so."
        )
    return length


def read_size(text: str) -> tuple[float | None, float | None]:
    """Width and height, or the width alone.

    >>> read_size("8x5cm")[0] == read_size("8cm")[0], read_size("8cm")[1]
    (True, None)
    """
    match = SIZE.fullmatch(text)
    if not match:
        return read_length(text), None
    unit = match[3] or "px"
    return read_length(f"{match[1]}{unit}"), read_length(f"{match[2]}{unit}")


def fit_figure(chart: Any, style: PaperStyle, title: str) -> Drawing:
    """A chart as a drawing: its panels are made larger or smaller until the whole fits.

    Words keep their size while the panels have room beside them. In a smaller picture panels stand
    below each other, or all of it is scaled down, whichever leaves the words larger.
    """
    spec = _restyle(chart.to_dict(), style)
    drawing = _draw(spec, title)
    if style.width is None and style.height is None:
        return drawing
    forms = [
        (form, _draw(form, title), _draw(_scale(form, 0.5, 0.5), title)) for form in _fold(spec)
    ]
    for zoom in ZOOMS:
        for form, whole, half in forms:
            drawn = _fit(form, whole, half, style, zoom)
            if drawn is not None:
                _warn_of_small_words(zoom, title)
                width, height = zoom * drawn.width, zoom * drawn.height
                return _frame(drawn, style.width or width, style.height or height)
    zoom = (style.width or drawing.width) / drawing.width
    _warn_of_small_words(zoom, title)
    return _frame(
        drawing, style.width or zoom * drawing.width, style.height or zoom * drawing.height
    )


def _fold(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The chart, and the same with fewer panels in a row."""
    columns = spec.get("columns", 1)
    fewer = dict.fromkeys([ceil(columns / 2), 1]) if columns > 1 else {}
    return [spec, *({**spec, "columns": n} for n in fewer)]


def _fit(
    spec: dict[str, Any], whole: Drawing, half: Drawing, style: PaperStyle, zoom: float
) -> Drawing | None:
    """The chart with panels of such a size that the whole, zoomed, is as large as wanted; None
    where its labels would lie on each other.

    The size of a chart grows with that of its panels, so two drawings of it tell which panels.
    """
    wide, high = (None if side is None else side / zoom for side in (style.width, style.height))
    across = _solve(whole.width, half.width, wide)
    down = _solve(whole.height, half.height, high)
    # A side that was not asked for keeps the shape of the panels.
    across, down = across or down or 1.0, down or across or 1.0
    if across < NARROWEST or down < LOWEST:
        return None
    drawn = _draw(_scale(spec, across, down), whole.title)
    is_near = _is_near(drawn.width, wide) and _is_near(drawn.height, high)
    return drawn if is_near else None


def _warn_of_small_words(zoom: float, title: str) -> None:
    if zoom < READABLE:
        message = "Words in figure %s are %.1f points high at this size; choose a larger one."
        log.warning(message, title, 8 * zoom)


def style_drawing(drawing: Drawing, style: PaperStyle) -> Drawing:
    """A drawing of attention in another size, font, colours or on a background."""
    svg = drawing.svg
    if style.font is not None:
        svg = re.sub(
            r'font-family="[^"]*"', f'font-family="{escape_text(style.font)}"', svg, count=1
        )
    if style.colours:
        lines, *marks = style.colours
        svg = svg.replace('stroke="currentColor"', f'stroke="{lines}"')
        svg = svg.replace("#d92b2b", marks[0]) if marks else svg
    drawn = replace(drawing, svg=_put_on(svg, style.background))
    if style.width is None and style.height is None:
        return drawn
    shape = drawing.width / drawing.height
    width = style.width or (style.height or 0) * shape
    return _frame(drawn, width, style.height or width / shape)


def _restyle(spec: dict[str, Any], style: PaperStyle) -> dict[str, Any]:
    config = {**spec.get("config", {})}
    if style.font is not None:
        config["font"] = style.font
    if style.background is not None:
        config["background"] = style.background
    if style.colours:
        config["range"] = {**config.get("range", {}), "category": style.colours}
    if style.scheme in CATEGORIES:
        config["range"] = {**config.get("range", {}), "category": {"scheme": style.scheme}}
    styled = {**spec, "config": config}
    is_ramp = style.scheme is not None and style.scheme not in CATEGORIES
    restyled: dict[str, Any] = _swap_schemes(styled, style.scheme) if is_ramp else styled
    return restyled


def _swap_schemes(part: Any, scheme: str | None) -> Any:
    if isinstance(part, list):
        return [_swap_schemes(item, scheme) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: scheme if key == "scheme" else _swap_schemes(value, scheme)
        for key, value in part.items()
    }


def _scale(part: Any, across: float, down: float) -> Any:
    """The chart with all its panels larger or smaller; data and marks stay as they are."""
    if isinstance(part, list):
        return [_scale(item, across, down) for item in part]
    if not isinstance(part, dict):
        return part
    factors = {"width": across, "height": down}
    scaled: dict[str, Any] = {}
    for key, value in part.items():
        if key in factors and isinstance(value, (int, float)):
            scaled[key] = value * factors[key]
        elif key in factors and isinstance(value, dict) and "step" in value:
            scaled[key] = {**value, "step": value["step"] * factors[key]}
        elif key in ("spec", "layer", "hconcat", "vconcat", "concat"):
            scaled[key] = _scale(value, across, down)
        else:
            scaled[key] = value
    return scaled


def _solve(whole: float, half: float, wanted: float | None) -> float | None:
    """The factor of the panels at which the whole is as large as wanted."""
    if wanted is None:
        return None
    panels = 2 * (whole - half)  # what grows; the rest is axes, legends and titles
    return (wanted - (whole - panels)) / panels if panels > 0 else 1.0


def _is_near(size: float, wanted: float | None) -> bool:
    return wanted is None or abs(size - wanted) < NEAR * wanted


def _draw(spec: dict[str, Any], title: str) -> Drawing:
    import vl_convert  # a large library: only to draw

    svg = vl_convert.vegalite_to_svg(spec)
    sizes = re.match(r'<svg[^>]* width="([\d.]+)"[^>]* height="([\d.]+)"', svg)
    assert sizes is not None
    width, height = map(float, sizes.groups())
    return Drawing(svg, round(width), round(height), title)


def _frame(drawing: Drawing, width: float, height: float) -> Drawing:
    """The drawing in a frame of exactly this size; it is scaled as a whole and keeps its shape."""
    opening = re.match(r"<svg[^>]*>", drawing.svg)
    assert opening is not None
    bare = re.sub(r' (?:width|height)="[^"]*"', "", opening[0])
    if "viewBox" not in bare:
        bare = bare.replace("<svg", f'<svg viewBox="0 0 {drawing.width} {drawing.height}"', 1)
    sized = bare.replace("<svg", f'<svg width="{width:.2f}" height="{height:.2f}"', 1)
    svg = drawing.svg.replace(opening[0], sized, 1)
    return replace(drawing, svg=svg, width=round(width), height=round(height))


def _put_on(svg: str, background: str | None) -> str:
    if background is None or background == "transparent":
        return svg
    return put_on(svg, background)
