"""What a figure is, how all of them look, what their marks carry, and how they are saved."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Final, TypeAlias

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from headscope.data.table import Tables, split_kinds
from headscope.errors import StudyError
from headscope.files import write_atomically
from headscope.registry import load_presentations

__all__ = [
    "COLOURS",
    "DIVERGING",
    "FONT",
    "FORMATS",
    "GREY",
    "HEAD",
    "INTERVAL",
    "KIND_TITLES",
    "SEQUENTIAL",
    "TEXT",
    "Chart",
    "Figure",
    "calculate",
    "clean_label",
    "clean_labels",
    "list_figures",
    "mark_data",
    "name_and_interval",
    "number",
    "render",
    "save_alike",
    "save_figures",
    "style",
]

Chart: TypeAlias = Any  # of some kind; the types of Altair do not outlive its methods

# Okabe and Ito's colours, told apart by all eyes, without the two that vanish on white or black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#808080"  # seen equally well on white and on black: for lines that are no data
TEXT = "currentColor"  # of words among the marks: that of the page, and black in a file
SEQUENTIAL: Final = "yellowgreenblue"
DIVERGING: Final = "redblue"
FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
FORMATS = ("svg", "png", "pdf")
KIND_TITLES = {
    "encoder": "encoder",
    "decoder": "decoder",
    "cross": "cross attention, from the target to the source",
}
DOTS_PER_INCH = 200
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


@dataclass(frozen=True)
class Figure:
    """A picture of some tables of a run.

    Its marks carry `layer` and `head` (1-based) in their data wherever a mark is a head, so that
    the report can open the head's card, and its tooltips name the head as `8-10`.
    """

    name: str
    title: str
    caption: str  # how to read it, for someone who has not read the paper; also its alt text
    needs: tuple[str, ...]  # the tables it draws; all of them must be there
    made_by: str  # what to add to `headscope analyze MODEL` to have them
    draw_tables: Callable[[Tables], Chart]
    paper: str = ""  # the paper's own figure, as "Figure 2"
    has_content: Callable[[Tables], bool] = lambda tables: True  # asked when all tables are there
    content: str = ""  # which rows it draws, if not all: said where there are none
    in_line: int = 1  # how many such figures share a line of the page; wide ones come first

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there, empty, or without the rows it draws.

        Of several kinds of attention one is enough.
        """
        found = [self._missing(own) for own in self._kinds(tables).values()]
        return min(found, key=len)

    def draw(self, tables: Tables) -> alt.TopLevelMixin:
        """The picture, or an error that says what to run first."""
        missing = self.missing(tables)
        if missing:
            rows = f" with {self.content}" if self.content else ""
            raise StudyError(
                f"Figure {self.name!r} needs the table {missing[0]!r}{rows}, which this run does "
                f"not have. Expected {', '.join(self.needs)}; measure with: headscope analyze "
                f"MODEL {self.made_by}."
            )
        with debug_mode(False):  # a chart is checked when it is shown or saved, not at every step
            return self._style_kinds(self._kinds(tables))

    def _style_kinds(self, kinds: Mapping[str, Tables]) -> alt.TopLevelMixin:
        if "" in kinds:
            return style(self._draw(kinds[""]), self.caption)
        drawn = [
            self._draw(own).properties(title=KIND_TITLES[kind])
            for kind, own in kinds.items()
            if not self._missing(own)
        ]
        stacked = alt.vconcat(*drawn).resolve_scale(color="independent", shape="independent")
        return style(stacked, self.caption)

    def _draw(self, tables: Tables) -> Chart:
        return self.draw_tables({name: clean_labels(tables[name]) for name in self.needs})

    def _kinds(self, tables: Tables) -> dict[str, Tables]:
        return split_kinds({name: tables[name] for name in self.needs if name in tables})

    def _missing(self, tables: Tables) -> list[str]:
        absent = [name for name in self.needs if not len(tables.get(name, ()))]
        return absent if absent or self.has_content(tables) else [self.needs[0]]


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
    return {f.name: f for shown in load_presentations().values() for f in shown.figures}


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
    made = [alt.CalculateTransform(**{"as": name, "calculate": f}) for name, f in fields.items()]
    chart.transform = [*([] if chart.transform is alt.Undefined else chart.transform), *made]
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
    tables: Tables, folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write every figure whose tables are there as NAME.FORMAT, and say where."""
    for format in formats:
        _refuse_format(format)
    paths = []
    drawable = [figure for figure in list_figures().values() if not figure.missing(tables)]
    for figure in drawable:
        chart = figure.draw(tables)
        for format in formats:
            paths.append(Path(folder) / f"{figure.name}.{format}")
            write_atomically(paths[-1], render(chart, format))
    return paths


def render(chart: Chart, format: str, **options: Any) -> bytes:
    """A chart as the content of a file; a PNG is on white, the others on nothing."""
    _refuse_format(format)
    if format == "svg":
        text = StringIO()
        chart.save(text, format="svg", **options)
        return text.getvalue().encode()
    content = BytesIO()
    if format == "png":
        white = chart.copy(deep=True)
        white.config.background = "white"
        white.save(content, format="png", **{"ppi": DOTS_PER_INCH, **options})
    else:
        chart.save(content, format="pdf", **options)
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
