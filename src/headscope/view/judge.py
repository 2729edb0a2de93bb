"""How the claims of a presentation are judged: by estimates, and by how many heads do something."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.data.depth import count_layers, halves, name_layers
from headscope.data.table import Tables, rows_where
from headscope.stats.interval import LEVEL, Estimate
from headscope.view.numbers import POINTS, SHARE, Form, bounds, percent, row_estimate
from headscope.view.table import Where, choose_rows

__all__ = [
    "CAUSAL", "Claim", "Outcome", "PairClaim", "Passing", "Replicated", "Verdict", "above",
    "all_of", "beside_untrained", "count", "fill_exact", "in_paper_window", "judge", "judge_count",
    "judge_depth", "list_heads", "most", "mostly_low", "name_head", "note_open", "note_undecided",
    "passing", "plural", "some", "top_row",
]  # fmt: skip

Array = NDArray[np.float64]
CAUSAL = "Not measurable in a causal model:"  # where the mask, not the model, decides
PAPER_WINDOW = 128
TAIL = (1 - LEVEL) / 2
SHOWN_HEADS = 5
NO_INTERVAL = "There is no interval (it needs two documents or more): undecided."


Verdict = Literal["holds", "does not hold", "undecided", "not measured"]


@dataclass(frozen=True)
class Outcome:
    """What a check shows: the verdict, and the numbers in a sentence."""

    verdict: Verdict
    shows: str


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, and how to see whether it is true of another model."""

    name: str
    check: Callable[[Tables], Outcome]
    says: str  # as it is checked; where the paper gives no figure, ours stands in brackets
    paper: str  # what the paper reports of BERT-base; its own words in quotation marks
    needs: tuple[str, ...]  # tables; all of them must be there
    section: str = ""  # of the paper; by default that of the presentation, as are the next two
    made_by: str = ""  # what to add to `headscope analyze MODEL` to have the tables
    figure: str | None = ""  # the figure that shows it
    unless: str = ""  # of which models the tables cannot be made
    is_of_data: bool = False  # about the text or the tokenizer: training has no part in it

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there or empty."""
        return [name for name in self.needs if not len(tables.get(name, ()))]


@dataclass(frozen=True)
class PairClaim:
    """A finding of the paper about two models, and how to see whether it is true of two others."""

    name: str
    section: str
    says: str
    paper: str
    needs: tuple[str, str]  # a table and its column
    check: Callable[[Any, Any], Outcome]  # of the tables of both models with their replicates


class Replicated(NamedTuple):
    """A table of a run, and one of its columns on all data and without each bucket."""

    rows: pd.DataFrame
    values: Float[Array, "replicate row"]

    def by_layer(self, is_chosen: "pd.Series[bool]") -> Float[Array, "replicate layer"]:
        """The mean of these rows in each layer; NaN without a bucket that has none of them."""
        values, layers = self.values[:, is_chosen], self.rows["layer"][is_chosen].to_numpy()
        is_missing = np.isnan(values).all(axis=1, keepdims=True)
        values = np.where(np.isnan(values), values[:1], values)
        means = [values[:, layers == layer].mean(axis=1) for layer in np.unique(layers)]
        profile = np.stack(means, axis=1) if means else np.empty((len(values), 0))
        return np.where(is_missing, np.nan, profile)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on several conditions that must all hold.

    >>> all_of(["holds", "undecided"]), all_of(["undecided", "does not hold"]), all_of([])
    ('undecided', 'does not hold', 'not measured')
    """
    order: tuple[Verdict, ...] = ("does not hold", "undecided", "not measured", "holds")
    return next((verdict for verdict in order if verdict in verdicts), "not measured")


def judge(
    estimate: Estimate[float],
    threshold: float,
    shows: str,
    form: Form = SHARE,
    is_above: bool = True,
) -> Outcome:
    """Holds if the whole interval is above the threshold (or below it), not if none of it is.

    >>> judge(Estimate(0.6, 0.55, 0.65), 0.5, "It is 60 %.").verdict
    'holds'
    >>> judge(Estimate(0.6, 0.45, 0.75), 0.5, "It is 60 %.").shows
    'It is 60 %. The 95 % interval includes 50.0 %: undecided.'
    """
    value, low, high = estimate
    if pd.isna(value):
        return Outcome("not measured", f"{shows} There is no value to test.".strip())
    if pd.isna(low) and value == 0:  # it is 0 in every document: exact
        low = high = value
    if pd.isna(low):
        return Outcome("undecided", f"{shows} {NO_INTERVAL}")
    if low < threshold < high or (low <= threshold <= high and low < high):
        line = form.number(threshold)
        return Outcome("undecided", f"{shows} The 95 % interval includes {line}: undecided.")
    return Outcome("holds" if (low > threshold) == is_above else "does not hold", shows)


def fill_exact(rows: pd.DataFrame, column: str = "weight") -> pd.DataFrame:
    """The rows with the ends of their intervals also where a number never varies.

    Where other rows have an interval there are documents enough, so a row without one is the same
    whichever document is left out. A share of 0 or 1 in all n documents has the interval of n
    trials (Clopper and Pearson); another number is taken as exact.
    """
    names = bounds(rows, column)
    value, low, high = (rows[name].to_numpy(float, na_value=np.nan) for name in (column, *names))
    if np.isnan(low).all():
        return rows
    n_documents = rows.get("documents", pd.Series(inf, rows.index)).to_numpy(float)
    room = 1 - TAIL ** (1 / n_documents)
    low = np.where(np.isnan(low), np.where(value == 1, 1 - room, value), low)
    high = np.where(np.isnan(high), np.where(value == 0, room, value), high)
    return rows.assign(**dict(zip(names, (low, high), strict=True)))


class Passing(NamedTuple):
    """Rows that are clearly above a line, and those that may be, as their interval includes it."""

    sure: pd.DataFrame
    open: pd.DataFrame


def passing(
    rows: pd.DataFrame, threshold: float, column: str = "weight", is_above: bool = True
) -> Passing:
    """The rows above a line (or below it), by their intervals; without one a row is open."""
    value, lows, highs = (
        rows[name].to_numpy(float, na_value=np.nan) for name in (column, *bounds(rows, column))
    )
    lows, highs = np.where(np.isnan(lows), -inf, lows), np.where(np.isnan(highs), inf, highs)
    is_sure = lows > threshold if is_above else highs < threshold
    is_none = highs <= threshold if is_above else lows >= threshold
    is_known = ~np.isnan(value)
    return Passing(rows[is_known & is_sure], rows[is_known & ~is_sure & ~is_none])


def judge_count(n_sure: int, n_open: int, least: float, shows: str) -> Outcome:
    """Holds if so many clearly pass; does not hold if too few could."""
    if n_sure >= least:
        return Outcome("holds", shows)
    return Outcome("undecided" if n_sure + n_open >= least else "does not hold", shows)


def note_open(heads: Passing, line: str) -> str:
    """How many heads cannot be told, in a sentence; "" where all can."""
    n_open = len(heads.open)
    if n_open and heads.open[["low", "high"]].isna().all(axis=None):
        return f" {NO_INTERVAL}"
    have = "head has" if n_open == 1 else "heads have"
    return f" {n_open} more {have} {line} within the interval." * bool(n_open)


def note_undecided(n_open: int) -> str:
    """How many rows are undecided, in a sentence; "" where none is."""
    return f" Undecided: {n_open} more." * bool(n_open)


# Claims as data: about one number, and about how many heads do something.


def above(
    name: str,
    table: str,
    column: str,
    *,
    line: float,
    shows: str,
    form: Form = SHARE,
    is_above: bool = True,
    where: Where = MappingProxyType({}),
    **texts: Any,
) -> Claim:
    """The number of one row is above a line, or below it.

    `shows` is a sentence with the `{number}` in it, and other columns as `{row[...]}`.
    """

    def check(tables: Tables) -> Outcome:
        row = choose_rows(tables[table], where).iloc[0]
        text = shows.format(number=form.row(row, column), row=row)
        return judge(row_estimate(row, column), line, text, form, is_above)

    return Claim(name, check, **{"needs": (table,), **texts})


def some(name: str, table: str, **options: Any) -> Claim:
    """At least one head does it; `options` are those of `count`."""
    return count(name, table, least=lambda n_heads: 1, **options)


def most(name: str, table: str, **options: Any) -> Claim:
    """More than half of the heads do it; `options` are those of `count`."""
    return count(name, table, least=lambda n_heads: n_heads // 2 + 1, **options)


def count(
    name: str,
    table: str,
    *,
    least: Callable[[int], float],
    line: float,
    does: str,
    is_above: bool = True,
    column: str = "weight",
    where: Where = MappingProxyType({}),
    missing: str = "",
    written: str = "",
    **texts: Any,
) -> Claim:
    """At least so many heads, of all, have a number above a line, or below it.

    `does` is said of one head ("looks at the next token"), `missing` where the number is 0 for all
    heads, `written` is the line in words; `texts` are the fields of Claim.
    """

    def check(tables: Tables) -> Outcome:
        rows = _rows_with(tables[table], column, where)
        if missing and not rows[column].max() > 0:
            return Outcome("not measured", missing)
        heads = passing(rows, line, column, is_above)
        n_sure, n_heads = len(heads.sure), len(rows)
        highest = f"the highest is {list_heads(rows.nlargest(1, column), column)}"
        those = f": {list_heads(heads.sure, column)}" if is_above else f"; {highest}"
        do = does if n_sure == 1 else plural(does)
        shows = f"{n_sure} of {n_heads} heads ({percent(n_sure / n_heads)} %) {do}{those}."
        if not n_sure:
            shows = f"No head clearly {does}; {highest}."
        shows += note_open(heads, written or f"{100 * line:.0f} %")
        return judge_count(n_sure, len(heads.open), least(n_heads), shows)

    return Claim(name, check, **{"needs": (table,), **texts})


def mostly_low(
    name: str,
    table: str,
    *,
    line: float,
    does: str,
    column: str = "weight",
    where: Where = MappingProxyType({}),
    missing: str = "",
    **texts: Any,
) -> Claim:
    """Of the heads above a line more are in the lower half of the layers than in the upper."""

    def check(tables: Tables) -> Outcome:
        rows = _rows_with(tables[table], column, where)
        if missing and not rows[column].max() > 0:
            return Outcome("not measured", missing)
        return judge_depth(passing(rows, line, column), count_layers(tables[table]), plural(does))

    return Claim(name, check, **{"needs": (table,), **texts})


def _rows_with(table: pd.DataFrame, column: str, where: Where) -> pd.DataFrame:
    """The rows of heads with these labels that have the number, with exact ones filled."""
    rows = choose_rows(fill_exact(table, column), where)
    return rows[rows[column].notna()]


def plural(does: str) -> str:
    """What one head does, said of several.

    >>> plural("puts over half of its attention on it")
    'put over half of their attention on it'
    """
    verb, _, rest = does.partition(" ")
    return f"{'have' if verb == 'has' else verb.removesuffix('s')} {rest}".replace(
        " its ", " their "
    )


def judge_depth(heads: Passing, n_layers: int, do: str) -> Outcome:
    """Whether most of these heads are in the lower half of the layers, wherever the open ones."""
    if n_layers == 1:
        return Outcome("not measured", "The model has one layer: it has no lower and upper half.")
    places = ["layer", "head"]
    sure, is_open = (part.drop_duplicates(places) for part in heads)
    is_known = is_open.set_index(places).index.isin(sure.set_index(places).index)
    heads = Passing(sure, is_open[~is_known])
    lower, _ = halves(n_layers)
    low, open_low = (int(part["layer"].isin(lower).sum()) for part in heads)
    high, open_high = len(heads.sure) - low, len(heads.open) - open_low
    if not len(heads.sure):
        verdict: Verdict = "undecided" if len(heads.open) else "not measured"
        clearly = "clearly " * bool(len(heads.open))
        none = f"There are no heads that {clearly}{do}."
        return Outcome(verdict, f"{none}{note_open(heads, 'the line')}")
    counts = heads.sure["layer"].value_counts().sort_index()
    layers = ", ".join(f"{layer} ({count})" for layer, count in counts.items())
    shows = (
        f"{low} of the {low + high} heads that {do} are in {name_layers(lower, n_layers)} (by "
        f"layer: {layers}).{note_open(heads, 'the line')}"
    )
    if low > high + open_high:
        return Outcome("holds", shows)
    return Outcome("undecided" if low + open_low > high else "does not hold", shows)


def name_head(row: pd.Series) -> str:
    """A head as people name it, 8-10."""
    return f"{int(row['layer'])}-{int(row['head'])}"


def top_row(table: pd.DataFrame, column: str) -> pd.Series:
    """The row with the largest number; of equal ones the first."""
    return table.sort_values(column, ascending=False, kind="stable").iloc[0]


def list_heads(rows: pd.DataFrame, column: str = "weight") -> str:
    """The strongest heads with their shares."""
    ranked = rows.sort_values(column, ascending=False)
    shown = [
        f"{name_head(row)} {SHARE.row(row, column)}"
        for _, row in ranked.head(SHOWN_HEADS).iterrows()
    ]
    n_more = len(ranked) - len(shown)
    return ", ".join(shown) + f" and {n_more} more" * (n_more > 0)


def beside_untrained(row: Any, form: Form = SHARE, points: Form = POINTS) -> str:
    """What the untrained model has, and the paired difference; "" where it was not measured."""
    if pd.isna(row.get("untrained", None)):
        return ""
    more = points.estimate(row_estimate(row, "untrained_difference"))
    return f" Untrained: {form.number(row['untrained'])} (difference {more})."


def in_paper_window(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of truncated documents, as in the paper, where there are any; else those of the
    window that is nearest to the paper's 128 tokens."""
    if "cut" in table:
        return rows_where(table, cut="truncate")
    if "window" not in table:
        return table
    nearest = int(min(table["window"].unique(), key=lambda window: abs(window - PAPER_WINDOW)))
    return rows_where(table, window=nearest)
