"""What a figure is, and how all of them look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import altair as alt
import pandas as pd

from headscope.errors import StudyError
from headscope.report.figures.labels import clean_labels

__all__ = [
    "COLOURS",
    "DIVERGING",
    "FONT",
    "GREY",
    "SEQUENTIAL",
    "TEXT",
    "Drawing",
    "Figure",
    "Tables",
    "style",
]

Tables = Mapping[str, pd.DataFrame]
Drawing: TypeAlias = Any  # a chart of some kind; the types of Altair do not outlive its methods

# Okabe and Ito's colours, told apart by all eyes, without the two that vanish on white or black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#808080"  # seen equally well on white and on black: for lines that are no data
TEXT = "currentColor"  # of words among the marks: that of the page, and black in a file
SEQUENTIAL: Final = "yellowgreenblue"
DIVERGING: Final = "redblue"
FONT = "Liberation Sans, Helvetica, Arial, sans-serif"


def _always(tables: Tables) -> bool:
    return True


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
    draw_tables: Callable[[Tables], Drawing]
    paper: str = ""  # the paper's own figure, as "Figure 2"
    has_content: Callable[[Tables], bool] = _always  # asked when all tables are there
    content: str = ""  # which rows it draws, if not all: said where there are none

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there, empty, or without the rows it draws."""
        absent = [name for name in self.needs if not len(tables.get(name, ()))]
        if absent or self.has_content(tables):
            return absent
        return [self.needs[0]]

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
        clean = {name: clean_labels(tables[name]) for name in self.needs}
        return style(self.draw_tables(clean), self.caption)


def style(chart: Drawing, caption: str) -> alt.TopLevelMixin:
    """The same fonts, colours and lines for every figure, on any background."""
    plain = {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    styled: alt.TopLevelMixin = (
        chart.configure(background="transparent", font=FONT, padding=8)
        .configure_range(category=list(COLOURS))
        .configure_axis(grid=False, domainColor=GREY, tickColor=GREY, labelLimit=240, **plain)
        .configure_legend(labelLimit=300, titleLimit=300, **plain)
        .configure_header(
            labelFontSize=12, labelLimit=300, labelBaseline="line-bottom", labelPadding=-4
        )
        .configure_title(fontSize=12, fontWeight="normal")
        .configure_view(stroke=None)
        .properties(description=caption)
    )
    return styled
