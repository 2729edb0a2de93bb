"""What a figure is, and how all of them look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import altair as alt
import pandas as pd

from headscope.errors import StudyError

__all__ = ["COLOURS", "FONT", "Figure", "Tables", "name_heads", "style"]

Tables = Mapping[str, pd.DataFrame]

# Okabe and Ito's colours: told apart by all eyes, and in grey by their lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"


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
    draw_tables: Callable[[Tables], alt.TopLevelMixin]
    paper: str = ""  # the paper's own figure, as "Figure 2"

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there or empty."""
        return [name for name in self.needs if not len(tables.get(name, ()))]

    def draw(self, tables: Tables) -> alt.TopLevelMixin:
        """The picture, or an error that says what to run first."""
        missing = self.missing(tables)
        if missing:
            raise StudyError(
                f"Figure {self.name!r} needs the table {missing[0]!r}, which this run does not "
                f"have. Expected {', '.join(self.needs)}; measure with: headscope analyze MODEL "
                f"{self.made_by}."
            )
        return style(self.draw_tables(tables), self.caption)


def style(chart: alt.TopLevelMixin, caption: str) -> alt.TopLevelMixin:
    """The same fonts, colours and lines for every figure, on any background."""
    styled: alt.TopLevelMixin = (
        chart.configure(background="transparent", font=FONT)
        .configure_range(category=list(COLOURS))
        .configure_axis(grid=False, labelFontSize=11, titleFontSize=12, titleFontWeight="normal")
        .configure_legend(labelFontSize=11, titleFontSize=12, titleFontWeight="normal")
        .configure_view(stroke=None)
        .properties(description=caption)
    )
    return styled


def name_heads(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column that names each head as people do, `8-10`."""
    names = table["layer"].astype(str) + "-" + table["head"].astype(str)
    return table.assign(name=names)
