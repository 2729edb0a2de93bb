"""What a claim of the paper is, how it is judged, and what a run shows of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from headscope.data.table import Tables, split_kinds
from headscope.registry import load_presentations
from headscope.stats.interval import Estimate
from headscope.view.depth import halves, name_layers
from headscope.view.numbers import SHARE, percent

__all__ = [
    "CAUSAL",
    "Claim",
    "Finding",
    "Outcome",
    "Verdict",
    "check_claims",
    "in_each_corpus",
    "in_paper_window",
    "judge",
    "list_claims",
    "list_heads",
    "mean_over",
    "name_head",
    "note_open",
    "place_heads",
    "straddles",
    "top_row",
]

Verdict = Literal["holds", "does not hold", "not measured"]

CORPUS_LABELS = ("treebank", "corpus")
CAUSAL = "Not measurable in a causal model:"  # where the mask, not the model, decides
PAPER_WINDOW = 128
SHOWN_HEADS = 5


@dataclass(frozen=True)
class Outcome:
    """What a check found: whether the claim holds (None: cannot be said), and the numbers."""

    holds: bool | None
    shows: str

    @property
    def verdict(self) -> Verdict:
        if self.holds is None:
            return "not measured"
        return "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, and how to see whether it is true of another model."""

    name: str
    section: str
    says: str  # as it is checked; where the paper gives no figure, ours stands in brackets
    paper: str  # what the paper reports of BERT-base
    needs: tuple[str, ...]  # tables; all of them must be there
    made_by: str  # what to add to `headscope analyze MODEL` to have them
    check: Callable[[Tables], Outcome]
    figure: str | None = None  # the figure that shows it
    unless: str = ""  # of which models the tables cannot be made

    def missing(self, tables: Tables) -> list[str]:
        """The tables it needs that are not there or empty."""
        return [name for name in self.needs if not len(tables.get(name, ()))]


@dataclass(frozen=True)
class Finding:
    """A claim and what this model shows of it."""

    claim: Claim
    verdict: Verdict
    shows: str  # in a sentence with numbers; or why it was not measured, and what measures it


def list_claims() -> list[Claim]:
    """All claims, by the sections of the paper."""
    claims = [claim for shown in load_presentations().values() for claim in shown.claims]
    return sorted(claims, key=lambda claim: claim.section)


def check_claims(tables: Tables) -> list[Finding]:
    """What the run shows of every claim, in the order of the paper.

    The paper is about an encoder, so of an encoder-decoder the encoder is judged.
    """
    kind, own = next(iter(split_kinds(tables).items()))
    findings = [_check(claim, own) for claim in list_claims()]
    said = f"{kind.capitalize()}: " * bool(kind)
    return [replace(f, shows=said * (f.verdict != "not measured") + f.shows) for f in findings]


def _check(claim: Claim, tables: Tables) -> Finding:
    missing = claim.missing(tables)
    if missing:
        lacks = f"The run has no table {missing[0]}. {claim.unless}".strip()
        shows = f"{lacks} Measure with: headscope analyze MODEL {claim.made_by}"
        return Finding(claim, "not measured", shows)
    # Only what the claim needs: a corpus that other tables tell apart is none of its concern.
    outcome = claim.check({name: tables[name] for name in claim.needs})
    return Finding(claim, outcome.verdict, outcome.shows)


def judge(estimate: Estimate[float], threshold: float, shows: str) -> Outcome:
    """Holds if the estimate is above the threshold; notes when the interval includes it."""
    if pd.isna(estimate.value):
        return Outcome(None, f"{shows} There is no number to judge by.")
    is_open = straddles(estimate, threshold)
    caveat = f" The interval includes {percent(threshold)} %: this may be chance." * is_open
    return Outcome(bool(estimate.value > threshold), shows + caveat)


def straddles(estimate: Estimate[float], threshold: float) -> bool:
    """Whether the interval includes the threshold; never, where there is no interval."""
    return bool(estimate.low <= threshold <= estimate.high)


def note_open(rows: pd.DataFrame, threshold: float, said: str) -> str:
    """How many heads have the threshold in their interval, in a sentence; "" where none has."""
    n_open = int(((rows["low"] <= threshold) & (rows["high"] >= threshold)).sum())
    return f" Heads with {said} within their interval: {n_open}." * bool(n_open)


def mean_over(rows: pd.DataFrame, column: str = "weight") -> Estimate[float]:
    """The mean over heads. Its interval is the mean of theirs: this assumes correlated errors, so
    the interval is conservative."""
    return Estimate(*(float(rows[name].mean()) for name in (column, "low", "high")))


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


def place_heads(heads: pd.DataFrame, n_layers: int, what: str) -> Outcome:
    """Whether most of these heads are in the lower half of the layers."""
    if n_layers == 1:
        return Outcome(None, "The model has one layer: there is no lower and upper half.")
    if heads.empty:
        return Outcome(None, f"No heads {what}, so there are none to place.")
    lower, _ = halves(n_layers)
    n_low = int(heads["layer"].isin(lower).sum())
    counts = heads["layer"].value_counts().sort_index()
    layers = ", ".join(f"{layer} ({count})" for layer, count in counts.items())
    shows = (
        f"{n_low} of the {len(heads)} heads that {what} are in {name_layers(lower, n_layers)} "
        f"(by layer: {layers})."
    )
    return Outcome(n_low > len(heads) / 2, shows)


def in_each_corpus(check: Callable[[Tables], Outcome]) -> Callable[[Tables], Outcome]:
    """The check, done on every treebank or corpus of the tables: it must hold in all of them."""

    def check_each(tables: Tables) -> Outcome:
        outcomes = {name: check(part) for name, part in _split_corpora(tables)}
        if len(outcomes) == 1:
            return next(iter(outcomes.values()))
        said = [f"{name}: {o.verdict}. {o.shows}" for name, o in outcomes.items()]
        known = [o.holds for o in outcomes.values() if o.holds is not None]
        return Outcome(all(known) if known else None, " ".join(said))

    return check_each


def in_paper_window(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of truncated documents, as in the paper, where there are any; else those of the
    window that is nearest to the paper's 128 tokens."""
    if "cut" in table:
        return table[table["cut"] == "truncate"]
    if "window" not in table:
        return table
    nearest = int(min(table["window"], key=lambda window: abs(window - PAPER_WINDOW)))
    return table[table["window"].eq(nearest)]


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
