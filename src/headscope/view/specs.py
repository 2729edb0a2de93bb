"""What an analysis shows, as data: figures, claims, sentences, facts, behaviours, tables.

A spec names a table, columns and words; this room draws and writes. No chart library is loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from headscope.data.table import Tables, split_kinds
from headscope.errors import StudyError
from headscope.options import flag_of
from headscope.view.table import TextTable, choose_rows

__all__ = [
    "COLOURS", "EACH", "GREY", "HOW_TO_READ", "IN_BRACKETS", "KIND_TITLES", "OTHER", "Bars",
    "Behaviour", "Dots", "Figure", "Grid", "HeadMeasure", "Hover", "Kind", "Labels", "Look",
    "PageTable", "PrintedTable", "Threshold", "attention_grid", "how_to_read",
]  # fmt: skip

# Okabe and Ito's colours, told apart by all eyes, without the two that vanish on white or black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#808080"  # seen equally well on white and on black: for lines that are no data
KIND_TITLES = {
    "encoder": "encoder",
    "decoder": "decoder",
    "cross": "cross attention, from the target to the source",
}
HOW_TO_READ = "Each cell is a head. Rows: layers. Columns: heads."
IN_BRACKETS = "A head in brackets was chosen in under half of the folds; its bar includes others."

EACH = "<each>"  # in the words of a behaviour: the value that it is about


# Figures.


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture of some tables of a run.

    Its marks carry `layer` and `head` (1-based) in their data wherever a mark is a head, so that
    the report can open the head's card, and its tooltips name the head as `8-10`. What draws it is
    a function of the tables, or the name of one ("package.module:function") that is loaded when
    the figure is drawn.
    """

    name: str
    title: str
    caption: str  # how to read it, for someone who has not read the paper; also its alt text
    needs: tuple[str, ...] = ()  # the tables it draws, all of them; by default that of its name
    made_by: str = ""  # what to add to `headscope analyze MODEL` to have them
    draw_tables: Callable[[Tables], Any] | str = ""
    paper: str = ""  # the paper's own figure, as "Figure 2"
    has_content: Callable[[Tables], bool] = lambda tables: True  # asked when all tables are there
    content: str = ""  # which rows it draws, if not all: said where there are none
    in_line: int = 1  # how many such figures share a line of the page; wide ones come first

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", self.needs or (self.name,))

    def is_drawable(self, tables: Tables) -> bool:
        """Whether the tables have the rows that it draws."""
        return self.has_content(tables)

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there, empty, or without the rows it draws.

        Of several kinds of attention one is enough.
        """
        return min(map(self.missing_of_kind, self.by_kind(tables).values()), key=len)

    def missing_of_kind(self, tables: Tables) -> list[str]:
        """The same for tables of one kind of attention."""
        absent = [name for name in self.needs if not len(tables.get(name, ()))]
        return absent if absent or self.is_drawable(tables) else [self.needs[0]]

    def explain_empty(self, tables: Tables) -> str:
        """Why there is nothing to draw in tables that are all there; "" if one is not."""
        if not all(len(tables.get(name, ())) for name in self.needs):
            return ""
        needs = f": it needs {self.content}" * bool(self.content)
        return f"it was measured, but this model and these corpora give nothing to draw{needs}"

    def by_kind(self, tables: Tables) -> dict[str, Tables]:
        """What it needs of each kind of attention."""
        return split_kinds({name: tables[name] for name in self.needs if name in tables})

    def draw(self, tables: Tables) -> Any:
        """The picture, or an error that says what to run first."""
        from headscope.view.figure import draw  # altair: only to draw

        return draw(self, tables)


@dataclass(frozen=True, kw_only=True)
class _HeadsFigure(Figure):
    """A figure of one number of every head, from the first table that it needs."""

    column: str
    axis: Any  # what the number is, in words; or a function of the tables that says it
    where: Mapping[str, str | tuple[str, ...]] = field(
        default_factory=dict
    )  # rows drawn, by labels
    seen: str = ""  # the column whose values get no place where their number is 0 everywhere
    rows: Callable[[Tables], pd.DataFrame] | None = None  # the rows, where they must be computed
    own_scales: bool = False  # each panel has its own scale

    def choose_rows(self, tables: Tables) -> pd.DataFrame:
        """The rows that are drawn."""
        table = self.rows(tables) if self.rows else choose_rows(tables[self.needs[0]], self.where)
        table = table[table[self.column].notna()]
        if not self.seen:
            return table
        return table[table.groupby(self.seen)[self.column].transform("max") > 0]

    def is_drawable(self, tables: Tables) -> bool:
        return self.has_content(tables) and len(self.choose_rows(tables)) > 0


@dataclass(frozen=True, kw_only=True)
class Dots(_HeadsFigure):
    """The paper's plot: layers across, a number up, a dot for each head, a line of means."""

    split: str  # the column whose values are told apart, in panels
    words: Mapping[str, str]  # what they are called, in their order; others come as they are
    by_colour: bool = False  # told apart by colours in one panel
    dashed: str = ""  # a column drawn as a dashed line: what the number would be by chance
    dashed_title: str = ""


@dataclass(frozen=True)
class Hover:
    """A line of a tooltip: a column, what it is called, and the format of a number; "": text."""

    column: str
    title: str = ""
    form: str = ""


@dataclass(frozen=True, kw_only=True)
class Grid(_HeadsFigure):
    """A cell for each head, layers down and heads across, as dark as its number.

    A diverging scale is centred on 0: red above it, blue below.
    """

    diverging: Any = False  # or a function of the tables that says whether it is
    panel: str = ""  # the column with a panel for each of its values
    words: Mapping[str, str] = field(default_factory=dict)  # what panels are called, in order
    hover: Sequence[Hover] = ()
    most: float | None = None  # the end of the scale; None: the largest number
    in_line: int = 3


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """Best scores as bars, beside what they are compared with: a line for each label."""

    rows: Callable[[Tables], pd.DataFrame]
    label: str
    column: str
    axis: str
    bar: str  # what a bar is, for the legend
    ticks: Mapping[str, str]  # what it is compared with: columns, and what they are called
    on_all: str = ""  # the column of the score on the data that the choice was made on
    panel: str = ""  # the column with a panel for each of its values, if the rows have it
    hover: Sequence[Hover] = ()
    has_heads: bool = True  # every bar is a head, named at its end


def how_to_read(number: str) -> str:
    """What a caption says of dots."""
    return (
        f"Each dot is a head. x: layer. y: {number}. The line is the mean of the layer; the "
        "highest outliers have names."
    )


def attention_grid(name: str, table: str, to: str, where: Mapping[str, str], content: str) -> Grid:
    """The attention that heads give to one thing."""
    return Grid(
        name=name,
        title=f"Heads that attend to {to}",
        caption=f"{HOW_TO_READ} The darker, the more of its attention goes to {to}. The scale ends "
        "at 100 % in all such grids.",
        needs=(table,),
        column="weight",
        axis="share of attention",
        where=where,
        most=1.0,
        has_content=lambda tables: bool((choose_rows(tables[table], where)["weight"] > 0).any()),
        content=content,
    )


# Behaviours and labels.


@dataclass(frozen=True)
class Kind:
    """A kind of behaviour: few enough that each has a colour and a shape on the map of heads."""

    name: str
    colour: str
    shape: str


OTHER = Kind("other", GREY, "circle")


@dataclass(frozen=True)
class Look:
    """Somewhere attention can go: a colour on the picture of all heads.

    A head has the colour of what gets the largest share of its attention.
    """

    kind: Kind
    short: str  # in a cell of the picture: six letters or so
    needs: tuple[str, ...]  # tables; all of them must be there
    where: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)  # rows to add up
    measure: Callable[[Tables], "pd.Series[float]"] | None = None  # instead, by layer and head
    is_sum: bool = False  # of other looks, so that it does not count towards all attention

    def shares(self, tables: Tables) -> "pd.Series[float]":
        """How much of each head's attention goes there, by layer and head."""
        if self.measure is not None:
            return self.measure(tables)
        rows = choose_rows(tables[self.needs[0]], self.where)
        return rows.groupby(["layer", "head"])["weight"].sum()


@dataclass(frozen=True)
class Threshold:
    """Above which a head counts; an option of `headscope layout`.

    A behaviour is measured as a share, so a threshold of another unit is divided by `per`.
    """

    name: str
    default: float
    help: str
    most: float = 1.0
    per: float = 1.0

    def as_share(self, chosen: Mapping[str, float]) -> float:
        """The share above which a head counts; an error for one that none or all would pass."""
        value = chosen.get(self.name, self.default)
        if not 0 < value < self.most:
            raise StudyError(
                f"{flag_of(self.name)} {value} cannot be used. Expected a number between 0 and "
                f"{self.most:.4g}; change it, or leave it out."
            )
        return value / self.per


@dataclass(frozen=True)
class Behaviour:
    """Something a head can do with its attention, as a share of it."""

    name: str  # "previous token"
    phrase: str  # "looks at the previous token ({})"
    kind: Kind
    threshold: Threshold
    needs: str  # the table it is read off
    column: str  # the share
    where: Mapping[str, str] = field(default_factory=dict, hash=False)  # its rows, by labels
    ranking: str = ""  # of the analysis, by which its best and worst examples are found
    is_background: bool = False  # says little of a head, so it is named last
    short: str = ""  # in a cell of the picture of all heads: six letters or so
    also: str = ""  # other words by which a person may look for it
    is_negative: bool = False  # the share is that below 0
    panel: str = ""  # of the sheet of heads on one sentence, where it has one
    is_look: bool = False  # it is where attention goes, which a `Look` colours; not what it finds
    each: str = ""  # a column each of whose values has its own behaviour, named after it,
    besides: tuple[str, ...] = ()  # but for these

    def of(self, value: str) -> "Behaviour":
        """The behaviour of one value of the column `each`."""
        shown = value.replace("{", "{{").replace("}", "}}")  # the phrase gets a share later
        return replace(
            self,
            name=self.name.replace(EACH, value),
            phrase=self.phrase.replace(EACH, shown),
            short=value,
            ranking=value,
            also=value,
            where={**self.where, self.each: value},
            each="",
        )


@dataclass(frozen=True)
class Labels:
    """Names of what heads find, such as syntactic relations."""

    kind: Kind
    needs: str  # the table they are read off
    find: Callable[[pd.DataFrame], pd.DataFrame]  # -> layer, head, label, share, is_known
    name: str | None = None  # the one label there is; None: any
    called: str = "{}"  # what a card calls it
    plain: Callable[[str], str] = lambda label: ""  # any label in plain words, if it has some
    noun: str = "label"
    short: str = ""  # of the one label, in a cell of the picture of all heads
    also: Callable[[str], str] = lambda label: ""  # other words by which one may look for a label


@dataclass(frozen=True)
class HeadMeasure:
    """A number of every head under the name by which other programs know it (`exports/`).

    One with `for_cache` can say which heads of a decoder need all keys and values. `window` names
    the options of the analysis for the first and the recent tokens that the number leaves out.
    """

    name: str
    says: str  # what it is, in a sentence
    needs: str  # the table it is read off
    column: str
    where: Mapping[str, str] = field(default_factory=dict, hash=False)  # its rows, by labels
    for_cache: str = ""  # the name by which it is chosen
    window: tuple[str, str] | None = None


# Tables that people read.


@dataclass(frozen=True)
class PrintedTable:
    """A table of the run that the terminal prints; without `read` only as CSV and JSON.

    `read` is told the least number of words that a row must stand for.
    """

    name: str
    read: Callable[[pd.DataFrame, int], list[TextTable]] | None = None


@dataclass(frozen=True)
class PageTable:
    """A table of the paper for this model, on the page; one for every corpus."""

    title: str
    made_by: str  # what to add to `headscope analyze MODEL` to have it; "": nothing would
    needs: str  # the table without which there is nothing to build
    build: Callable[[Tables], list[TextTable]]
    name: str = ""  # by which `headscope table` prints it

    def make(self, tables: Tables) -> list[TextTable]:
        """The tables; none where the run lacks what it needs."""
        return self.build(tables) if len(tables.get(self.needs, ())) else []
