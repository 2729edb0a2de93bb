"""How all figures look, what their marks carry, and how they are saved."""

import re
from collections.abc import Sequence
from importlib import import_module
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Final, TypeAlias

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from headscope.data.head_view import ShownExample
from headscope.data.table import Tables
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.view.presentation import list_specs
from headscope.view.sheet import draw_sheets
from headscope.view.specs import COLOURS, GREY, KIND_TITLES, Bars, Dots, Figure, Grid

__all__ = [
    "DIVERGING", "FONT", "FORMATS", "HEAD", "INTERVAL", "SEQUENTIAL", "TEXT", "Chart", "calculate",
    "clean_label", "clean_labels", "draw", "list_figures", "mark_data", "name_and_interval",
    "number", "render", "save_alike", "save_figures", "style",
]  # fmt: skip

Chart: TypeAlias = Any  # of some kind; the types of Altair do not outlive its methods

TEXT = "currentColor"  # of words among the marks: that of the page, and black in a file
SEQUENTIAL: Final = "yellowgreenblue"
DIVERGING: Final = "redblue"
FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
FORMATS = ("svg", "png", "pdf")
MANY_ROWS = 2500
HEAD = alt.Tooltip("name:N", title="head")
INTERVAL = alt.Tooltip("interval:N", title="95 % interval")
# Neither XML nor UTF-8 can hold these; one of them in a label would spoil a whole SVG.
# A label that every JavaScript object has as a key breaks the drawing, unless it looks alike only.
NAMES_OF_ALL_OBJECTS = frozenset(
    [
        *("__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf", "__defineGetter__", "__defineSetter__"),
        *("__lookupGetter__", "__lookupSetter__"),
    ]
)
INVISIBLE = "\u2060"  # joins words, and is not seen
# U+2028 and U+2029 end lines of Vega's expressions.
UNPRINTABLE = re.compile("[^\t\n\r -\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw(figure: Figure, tables: Tables) -> alt.TopLevelMixin:
    """The picture, or an error that says what to run first."""
    missing = figure.missing(tables)
    if missing and (reason := figure.explain_empty(tables)):
        raise StudyError(
            f"Figure {figure.name!r} is empty: {reason}. Expected a run that has it; draw another "
            "figure (see `headscope list figures`)."
        )
    if missing:
        raise StudyError(
            f"Figure {figure.name!r} needs the table {missing[0]!r}, which this run does not "
            f"have. Expected {', '.join(figure.needs)}; measure with: headscope analyze MODEL "
            f"{figure.made_by}."
        )
    with debug_mode(False):  # a chart is checked when it is shown or saved, not at every step
        kinds = figure.by_kind(tables)
        if "" in kinds:
            return style(_draw_kind(figure, kinds[""]), figure.caption)
        drawn = [
            _draw_kind(figure, part).properties(title=KIND_TITLES[kind])
            for kind, part in kinds.items()
            if not figure.missing_of_kind(part)
        ]
        stacked = alt.vconcat(*drawn).resolve_scale(color="independent", shape="independent")
        return style(stacked, figure.caption)


def _draw_kind(figure: Figure, tables: Tables) -> Chart:
    clean = {name: clean_labels(tables[name]) for name in figure.needs}
    if isinstance(figure, Dots | Grid | Bars):
        from headscope.view import charts  # which draws with what stands here

        return charts.draw_spec(figure, clean)
    draw_tables = figure.draw_tables
    if isinstance(draw_tables, str):
        module, _, name = draw_tables.partition(":")
        draw_tables = getattr(import_module(module), name)
    return draw_tables(clean)


def style(chart: Chart, caption: str) -> alt.TopLevelMixin:
    """The same fonts, colours and lines for every figure, on any background."""
    plain: dict[str, Any] = {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    axis: dict[str, Any] = {
        "grid": False,
        "domainColor": GREY,
        "tickColor": GREY,
        "labelLimit": 240,
    }
    header: dict[str, Any] = {"labelFontSize": 12, "labelLimit": 300, "labelPadding": -4}
    chart.config = alt.Config(  # set, and not with `configure`, which copies the chart
        background="transparent",
        font=FONT,
        padding=8,
        range=alt.RangeConfig(category=list(COLOURS)),
        axis=alt.AxisConfig(**axis, **plain),
        legend=alt.LegendConfig(labelLimit=300, titleLimit=300, **plain),
        header=alt.HeaderConfig(**header, labelBaseline="line-bottom"),
        title=alt.TitleConfig(fontSize=12, fontWeight="normal"),
        view=alt.ViewConfig(stroke=None),
    )
    chart.description = caption
    styled: alt.TopLevelMixin = chart
    return styled


def list_figures() -> dict[str, Figure]:
    """Every figure by name, in the order of the registry."""
    return {figure.name: figure for figure in list_specs(Figure)}


def mark_data(table: pd.DataFrame, columns: Sequence[str]) -> alt.InlineData:
    """These columns of the table, where it has them, as data of a chart.

    It stands in the chart as it is, whatever the reader has set up for Altair's own treatment of
    tables (which refuses more than 5000 rows). Many rows are CSV: a fifth of the size, and Altair
    does not look at every cell.
    """
    kept = table[[name for name in dict.fromkeys(columns) if name in table]]
    if len(kept) > MANY_ROWS:
        return _as_csv(kept)
    rows = kept.to_dict("records")
    values = tuple({str(k): rounded(v) for k, v in row.items()} for row in rows)
    return alt.InlineData(values=values)  # a tuple: Altair copies lists at every step of a chart


def _as_csv(table: pd.DataFrame) -> alt.InlineData:
    """The table as text, with the type of each column; what is missing is empty."""
    short = {name: column.map(rounded).astype(object) for name, column in table.items()}
    kinds = {
        str(name): "number" if pd.api.types.is_numeric_dtype(column) else "string"
        for name, column in table.items()
    }
    text = pd.DataFrame(short).to_csv(index=False)
    return alt.InlineData(values=text, format=alt.CsvDataFormat(type="csv", parse=kinds))


def rounded(value: Any) -> Any:
    """A value as JSON holds it shortly: none for what is missing, four digits for a fraction.

    >>> rounded(0.123456), rounded(0.0000123456), rounded(12.0), rounded(float("nan"))
    (0.1235, 1.235e-05, 12, None)
    """
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return None
    return int(value) if float(value).is_integer() else float(f"{value:.4g}")


def name_and_interval(chart: Chart, form: str = ".3~g") -> Chart:
    """The chart with the head's name and the interval in its data, computed where it is drawn."""
    some = f"format(datum.low, '{form}') + ' to ' + format(datum.high, '{form}')"
    return calculate(
        chart,
        name="datum.layer + '-' + datum.head",
        interval=f"isValid(datum.low) ? {some} : 'not measured'",
    )


def calculate(chart: Chart, **fields: str) -> Chart:
    """The chart itself, whose data now has these fields. Altair's method copies it for each."""
    transforms = [
        alt.CalculateTransform(**{"as": name, "calculate": f}) for name, f in fields.items()
    ]
    chart.transform = [*([] if chart.transform is alt.Undefined else chart.transform), *transforms]
    return chart


def number(field: str, title: str, form: str = ".3~g") -> alt.Tooltip:
    """A line of a tooltip with a number in it."""
    return alt.Tooltip(f"{field}:Q", title=title, format=form)


def clean_label(label: object) -> object:
    """The label with what no file or chart can hold replaced; what is no text stays as it is.

    >>> clean_label("obj" + chr(0))
    'obj\ufffd'
    """
    if label in NAMES_OF_ALL_OBJECTS:
        return f"{label}{INVISIBLE}"
    return UNPRINTABLE.sub("\ufffd", label) if isinstance(label, str) else label


def clean_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The table with all its text clean."""
    text = table.select_dtypes(exclude=["number", "bool"])
    return table.assign(**{str(name): column.map(clean_label) for name, column in text.items()})


def save_figures(
    tables: Tables,
    folder: str | Path,
    formats: Sequence[str] = ("svg",),
    examples: Sequence[ShownExample] = (),
) -> list[Path]:
    """Write every figure whose tables or examples are there as NAME.FORMAT, and say where."""
    for format in formats:
        _refuse_format(format)
    drawn = {n: f.draw(tables) for n, f in list_figures().items() if not f.missing(tables)}
    contents = {
        f"{name}.{format}": render(chart, format)
        for name, chart in drawn.items()
        for format in formats
    } | {
        f"{name}.{format}": sheet.encode(f".{format}")
        for name, sheet in draw_sheets(examples).items()
        for format in formats
    }
    for name, content in contents.items():
        write_atomically(Path(folder) / name, content)
    return [Path(folder) / name for name in contents]


def render(chart: Chart, format: str, **options: Any) -> bytes:
    """A chart as the content of a file, the same as `headscope report --figure` writes.

    A PNG is on white, the others on nothing. With `options` Altair writes it.
    """
    _refuse_format(format)
    if not options:
        from headscope.view.paper import PaperStyle, fit_figure  # it draws charts of this room

        return fit_figure(chart, PaperStyle(), "").encode(f".{format}")
    if format == "svg":
        text = StringIO()
        chart.save(text, format="svg", **options)
        return text.getvalue().encode()
    content = BytesIO()
    on_white = chart.copy(deep=True)
    on_white.config.background = "white" if format == "png" else chart.config.background
    on_white.save(content, format=format, **options)
    return content.getvalue()


def save_alike(chart: Chart) -> Chart:
    """The chart itself, whose `save` writes the same pictures as `save_figures`; what these are
    not, such as a page, is left to Altair."""

    def save(file: Any, format: str | None = None, **options: Any) -> None:
        is_named = isinstance(file, str | Path)
        kind = format or (Path(file).suffix.removeprefix(".").lower() if is_named else None)
        if is_named and kind in FORMATS:
            write_atomically(Path(file), render(chart, kind, **options))
        else:
            type(chart).save(chart, file, format=format, **options)

    object.__setattr__(chart, "save", save)  # Altair takes other attributes for its own
    return chart


def _refuse_format(format: str) -> None:
    if format not in FORMATS:
        raise StudyError(
            f"Figures cannot be saved as {format!r}. Expected one of {', '.join(FORMATS)}; choose "
            "one of them."
        )
