"""What a claim of the paper is, how it is judged, and what a run shows of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.data.depth import halves, name_layers
from headscope.data.table import Tables, rows_where, split_kinds
from headscope.registry import is_built_in, load_presentations
from headscope.stats.interval import Estimate
from headscope.view.numbers import POINTS, SHARE, Form, row_estimate
from headscope.view.own_names import name_specials

__all__ = [
    "CAUSAL",
    "Claim",
    "Finding",
    "Outcome",
    "PairClaim",
    "Passing",
    "Replicated",
    "Verdict",
    "added_claims",
    "all_of",
    "beside_untrained",
    "check_claims",
    "count_verdicts",
    "fill_exact",
    "in_paper_window",
    "judge",
    "judge_count",
    "list_claims",
    "list_heads",
    "name_head",
    "note_open",
    "passing",
    "place_heads",
    "sum_up",
    "top_row",
]

Array = NDArray[np.float64]
Verdict = Literal["holds", "does not hold", "undecided", "not measured"]

CORPUS_LABELS = ("treebank", "corpus")
CAUSAL = "Not measurable in a causal model:"  # where the mask, not the model, decides
PAPER_WINDOW = 128
SHOWN_HEADS = 5
NO_INTERVAL = "There is no interval (it needs two documents or more): undecided."
ALSO_UNTRAINED = "It holds for the untrained model too, so it says nothing about training."
ASK_UNTRAINED = "To see which hold without training too, add --null 1."


@dataclass(frozen=True)
class Outcome:
    """What a check found: the verdict, and the numbers in a sentence."""

    verdict: Verdict
    shows: str


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, and how to see whether it is true of another model."""

    name: str
    section: str
    says: str  # as it is checked; where the paper gives no figure, ours stands in brackets
    paper: str  # what the paper reports of BERT-base; its own words in quotation marks
    needs: tuple[str, ...]  # tables; all of them must be there
    made_by: str  # what to add to `headscope analyze MODEL` to have them
    check: Callable[[Tables], Outcome]
    figure: str | None = None  # the figure that shows it
    unless: str = ""  # of which models the tables cannot be made
    is_of_data: bool = False  # about the text or the tokenizer: training has no part in it

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there or empty."""
        return [name for name in self.needs if not len(tables.get(name, ()))]


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


@dataclass(frozen=True)
class PairClaim:
    """A finding of the paper about two models, and how to see whether it is true of two others."""

    name: str
    section: str
    says: str
    paper: str
    needs: tuple[str, str]  # a table and its column
    check: Callable[[Replicated, Replicated], Outcome]


@dataclass(frozen=True)
class Finding:
    """A claim and what this model shows of it."""

    claim: Claim
    verdict: Verdict
    shows: str  # in a sentence with numbers; or why it was not measured, and what measures it
    untrained: tuple[Verdict, ...] = ()  # of the same model untrained, by draw; none of data

    @property
    def holds_untrained(self) -> bool:
        """Whether it holds in most draws of the untrained model."""
        return 2 * self.untrained.count("holds") > len(self.untrained)

    @property
    def untrained_in_short(self) -> str:
        """The verdict on the untrained model; of several draws, how many of them hold."""
        n_holding, n_draws = self.untrained.count("holds"), len(self.untrained)
        if not n_draws:
            return "-"
        return self.untrained[0] if n_draws == 1 else f"holds in {n_holding} of {n_draws} draws"

    @property
    def note(self) -> str:
        """What must be known of a claim that holds without training too; "" of others."""
        return ALSO_UNTRAINED * (self.verdict == "holds" and self.holds_untrained)


def list_claims() -> list[Claim]:
    """All claims, by the sections of the paper."""
    claims = [claim for shown in load_presentations().values() for claim in shown.claims]
    return sorted(claims, key=lambda claim: claim.section)


def check_claims(
    tables: Tables, untrained: Tables | None = None, model: Mapping[str, Any] | None = None
) -> list[Finding]:
    """What the run shows of every claim, in the order of the paper.

    `untrained` are the tables of the same model without training, with the column `draw`. The paper
    is about an encoder, so of an encoder-decoder the encoder is judged. `model` is what the
    manifest says of the model.
    """
    kind, own = next(iter(split_kinds(tables).items()))
    said = f"{kind.capitalize()}: " * bool(kind)
    draws = [_check_all(part) for part in _split_draws(untrained or {})]
    found = zip(list_claims(), _check_all(own), strict=True)
    return [
        Finding(
            claim,
            outcome.verdict,
            said * (outcome.verdict != "not measured") + name_specials(outcome.shows, model, kind),
            () if claim.is_of_data else tuple(draw[place].verdict for draw in draws),
        )
        for place, (claim, outcome) in enumerate(found)
    ]


def added_claims() -> frozenset[str]:
    """The names of claims that are not the paper's: those of plug-ins."""
    added = (shown for name, shown in load_presentations().items() if not is_built_in(name))
    return frozenset(claim.name for shown in added for claim in shown.claims)


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """How many claims have each verdict, in words.

    >>> count_verdicts(["holds", "undecided", "not measured"])
    '1 of 2 hold, 0 do not hold, 1 undecided, 1 not measured'
    """
    counts = Counter(verdicts)
    n_measured = counts.total() - counts["not measured"]
    return (
        f"{counts['holds']} of {n_measured} hold, {counts['does not hold']} do not hold, "
        f"{counts['undecided']} undecided, {counts['not measured']} not measured"
    )


def sum_up(findings: Sequence[Finding]) -> str:
    """How many claims hold, how many do not, and how many hold without training too; those of
    plug-ins apart."""
    names = added_claims()
    added = [finding.verdict for finding in findings if finding.claim.name in names]
    others = f" Claims of plug-ins: {count_verdicts(added)}." * bool(added)
    own = [finding for finding in findings if finding.claim.name not in names]
    if all(finding.verdict == "not measured" for finding in own):
        return f"None of the paper's claims was measured.{others}"
    said = f"The paper's claims: {count_verdicts(finding.verdict for finding in own)}."
    n_draws = max(len(finding.untrained) for finding in own)
    if not n_draws:
        return f"{said} {ASK_UNTRAINED}{others}"
    n_untrained = sum(bool(finding.note) for finding in own)
    drawn = "the untrained model" if n_draws == 1 else f"most of {n_draws} untrained models"
    also = "holds" if n_untrained == 1 else "hold"
    return f"{said} Of those that hold, {n_untrained} {also} for {drawn} too.{others}"


def _check_all(tables: Tables) -> list[Outcome]:
    return [_check(claim, tables) for claim in list_claims()]


def _check(claim: Claim, tables: Tables) -> Outcome:
    missing = claim.missing(tables)
    if missing:
        lacks = f"The run has no table {missing[0]}. {claim.unless}".strip()
        how = f"{lacks} Measure with: headscope analyze MODEL {claim.made_by}"
        return Outcome("not measured", how)
    # Only what the claim needs: a corpus that other tables tell apart is none of its concern.
    return _check_each_corpus(claim.check, {name: tables[name] for name in claim.needs})


def _check_each_corpus(check: Callable[[Tables], Outcome], tables: Tables) -> Outcome:
    """The check on every treebank or corpus of the tables: it must hold in all of them."""
    outcomes = {name: check(part) for name, part in _split_corpora(tables)}
    if len(outcomes) == 1:
        return next(iter(outcomes.values()))
    said = " ".join(f"{name}: {o.verdict}. {o.shows}" for name, o in outcomes.items())
    known = [o.verdict for o in outcomes.values() if o.verdict != "not measured"]
    return Outcome(all_of(known), said)


# How claims are judged, for `show.py`.


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


def fill_exact(
    rows: pd.DataFrame, column: str = "weight", low: str = "low", high: str = "high"
) -> pd.DataFrame:
    """The rows with the ends of their intervals also where a number never varies.

    Where other rows have an interval there are documents enough, so a row without one is the same
    whichever document is left out: it is exact.
    """
    value, *ends = (rows[name].to_numpy(float, na_value=np.nan) for name in (column, low, high))
    if np.isnan(ends[0]).all():
        return rows
    filled = (np.where(np.isnan(end), value, end) for end in ends)
    return rows.assign(**dict(zip((low, high), filled, strict=True)))


class Passing(NamedTuple):
    """Rows that are clearly above a line, and those that may be, as their interval includes it."""

    sure: pd.DataFrame
    open: pd.DataFrame


def passing(
    rows: pd.DataFrame,
    threshold: float,
    column: str = "weight",
    low: str = "low",
    high: str = "high",
    is_above: bool = True,
) -> Passing:
    """The rows above a line (or below it), by their intervals; without one a row is open."""
    value, lows, highs = (
        rows[name].to_numpy(float, na_value=np.nan) for name in (column, low, high)
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


def note_open(found: Passing, said: str) -> str:
    """How many heads cannot be told, in a sentence; "" where all can."""
    n_open = len(found.open)
    if n_open and found.open[["low", "high"]].isna().all(axis=None):
        return f" {NO_INTERVAL}"
    have = "head has" if n_open == 1 else "heads have"
    return f" {n_open} more {have} {said} within the interval." * bool(n_open)


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


def place_heads(found: Passing, n_layers: int, what: str) -> Outcome:
    """Whether most of these heads are in the lower half of the layers, wherever the open ones."""
    if n_layers == 1:
        return Outcome("not measured", "The model has one layer: it has no lower and upper half.")
    lower, _ = halves(n_layers)
    low, open_low = (int(part["layer"].isin(lower).sum()) for part in found)
    high, open_high = len(found.sure) - low, len(found.open) - open_low
    if not len(found.sure):
        verdict: Verdict = "undecided" if len(found.open) else "not measured"
        clearly = "clearly " * bool(len(found.open))
        none = f"There are no heads that {clearly}{what}."
        return Outcome(verdict, f"{none}{note_open(found, 'the line')}")
    counts = found.sure["layer"].value_counts().sort_index()
    layers = ", ".join(f"{layer} ({count})" for layer, count in counts.items())
    shows = (
        f"{low} of the {low + high} heads that {what} are in {name_layers(lower, n_layers)} (by "
        f"layer: {layers}).{note_open(found, 'the line')}"
    )
    if low > high + open_high:
        return Outcome("holds", shows)
    return Outcome("undecided" if low + open_low > high else "does not hold", shows)


def beside_untrained(row: Any, form: Form = SHARE, points: Form = POINTS) -> str:
    """What the untrained model has, and the paired difference; "" where it was not measured."""
    if pd.isna(row.get("untrained", None)):
        return ""
    name = "untrained_difference"
    more = points.estimate(row_estimate(row, name, f"{name}_low", f"{name}_high"))
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


def _split_draws(untrained: Tables) -> Iterator[Tables]:
    draws = sorted({int(draw) for table in untrained.values() for draw in table["draw"]})
    for draw in draws:
        yield {name: table[table["draw"] == draw] for name, table in untrained.items()}


def _split_corpora(tables: Tables) -> Iterator[tuple[str, Tables]]:
    columns = {
        name: table[label].astype(str)
        for name, table in tables.items()
        for label in [label for label in CORPUS_LABELS if label in table][:1]
    }
    corpora = dict.fromkeys(corpus for column in columns.values() for corpus in column)
    if not corpora:
        yield "", tables
    for corpus in corpora:
        own = {name: tables[name][column == corpus] for name, column in columns.items()}
        yield corpus, {**tables, **own}
