"""Which head of one model attends like which head of another, matched one to one.

And how alike matched heads are beside what chance gives: random matches, and one model alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.analyses.distance.measure import (
    ROW_SUMS,
    list_heads,
    max_heads_option,
    rows_option,
    scale_to_all_rows,
    sum_rows,
)
from headscope.analyses.distance.tables import LARGEST, PAIR_COLUMNS
from headscope.contracts import Analysis, Watch
from headscope.data.attention import AttentionRows, Readings
from headscope.data.sampled_rows import SampledRows
from headscope.data.table import Tables
from headscope.lazy import Tensor
from headscope.options import require
from headscope.stats.bucket import N_FOLDS, leave_one_out, make_partitions
from headscope.stats.interval import Estimate, estimate, share
from headscope.stats.sums import Sums
from headscope.view.answer import Answer, AnswerMaker
from headscope.view.numbers import NATS, RATIO, ROUND_PERCENT
from headscope.view.presentation import PAIR, Presentation
from headscope.view.specs import Figure, PageTable, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["HeadMatches"]

BOUNDS = (0.0, LARGEST)
NEAREST = ("nearest_layer_b", "nearest_head_b", "nearest_divergence")
CHANCE_COLUMNS = ("matching", "divergence", "low", "high", "same_head")
MATCH_COLUMNS = (*PAIR_COLUMNS, "support", *NEAREST, "is_mutual", "mean_divergence")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeadMatches(Analysis):
    """Divergence of every head of one model and every head of another, over the same tokens.

    Heads are matched one to one so that the divergences of all matches sum to the least.
    """

    rows: int = rows_option()
    max_heads: int = max_heads_option()
    n_layers: int = 1  # of the first model, whose layers are shown first
    seed: int = 0  # of the rows; the engine sets it to the run's

    name = "head-matches"
    watches = Watch.MODEL_PAIR
    weighs_documents = True
    compares_layers = True
    sums = {"divergence": "first second", "within": "pair", **ROW_SUMS}
    tables = {
        "head-matches": MATCH_COLUMNS,
        "distance-between": PAIR_COLUMNS,
        "head-matches-chance": CHANCE_COLUMNS,
    }

    def __post_init__(self) -> None:
        require(self.rows > 0, "rows", self.rows, "at least 1")
        require(self.max_heads > 1, "max_heads", self.max_heads, "at least 2")

    @property
    def reads(self) -> tuple[SampledRows, ...]:
        return (SampledRows(self.rows, self.max_heads, self.seed),)

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Divergence by pair of heads, summed over rows; and how many rows."""
        from headscope.kernels.jensen_shannon import divergence_between, divergence_within

        attention: AttentionRows = seen[self.reads[0]]
        n_first = sum(attention.n_heads[: self.n_layers])
        divergence = divergence_between(attention.weights, n_first)  # [example, first, second]
        within = divergence_within(
            attention.weights[:, :, :n_first].contiguous()
        )  # [example, pair]
        alone = scale_to_all_rows(within, attention)
        return {**sum_rows(divergence, attention), "within": alone}

    def summarize(self, sums: Sums) -> Mapping[str, pd.DataFrame]:
        """All pairs across the models, and the matches."""
        divergence = sums.mean("divergence", "rows").values  # [replicate, first, second]
        heads = list_heads(sums)
        # The sums themselves say where the second model's layers begin.
        n_layers = int((np.cumsum([*map(len, heads)]) <= divergence.shape[1]).sum())
        first, second = _name_heads(heads[:n_layers]), _name_heads(heads[n_layers:])
        by_pair = sums.estimate("divergence", "rows", BOUNDS)
        pairs = _pair_table(by_pair, first, second)
        return {
            "head-matches": _match_table(divergence, pairs, second),
            "distance-between": pairs,
            "head-matches-chance": _chance_table(sums, first, second),
        }


def _name_heads(heads: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Layer and number of each head, 1-based: [head, 2]."""
    return np.array([(layer + 1, h + 1) for layer, of_layer in enumerate(heads) for h in of_layer])


def _pair_table(
    divergence: Estimate[Array], first: NDArray[np.int64], second: NDArray[np.int64]
) -> pd.DataFrame:
    """Every head of the one model with every head of the other."""
    numbers = (part.ravel() for part in divergence)  # of [first, second]
    heads, other = np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))
    return pd.DataFrame(dict(zip(PAIR_COLUMNS, (*heads.T, *other.T, *numbers), strict=True)))


def _match_table(
    divergence: Float[Array, "replicate first second"],
    pairs: pd.DataFrame,
    second: NDArray[np.int64],
) -> pd.DataFrame:
    """The matched pairs, how sure they are, and each one's nearest head, matched or not."""
    point = divergence[0]
    matched, other = _assign(point)  # of unequal numbers, the fewer all match
    nearest = point.argmin(axis=1)[matched]  # of each matched head of the first model
    table = pairs.iloc[matched * len(second) + other].reset_index(drop=True)
    return table.assign(
        support=_support(divergence[1:], matched, other),
        nearest_layer_b=second[nearest, 0],
        nearest_head_b=second[nearest, 1],
        nearest_divergence=point[matched, nearest],
        is_mutual=(nearest == other) & (point.argmin(axis=0)[other] == matched),
        mean_divergence=point.mean(axis=1)[matched],
    )


def _assign(costs: Float[Array, "first second"]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows and columns that are matched one to one at the lowest total."""
    from scipy.optimize import linear_sum_assignment  # slow to load: only for two models

    rows, other = linear_sum_assignment(costs)
    return rows, other


def _support(
    draws: Float[Array, "replicate first second"],
    matched: NDArray[np.intp],
    other: NDArray[np.intp],
) -> Float[Array, " match"]:
    """The share of buckets without which the same two heads still match; none for one bucket."""
    whole = [draw for draw in draws if not np.isnan(draw).any()]
    if not whole:
        return np.full(len(matched), np.nan)
    count = np.zeros(len(matched))
    for draw in whole:
        is_matched = np.zeros(draw.shape, dtype=bool)
        is_matched[_assign(draw)] = True
        count += is_matched[matched, other]
    return count / len(whole)


def _chance_table(sums: Sums, first: NDArray[np.int64], second: NDArray[np.int64]) -> pd.DataFrame:
    """Mean divergences: of the matches, held out; at random; of a model's own most alike heads.

    Heads are matched on seven folds of documents and scored on the eighth. The mean over all pairs
    is what random matches have. The last row asks how well documents tell heads apart at all:
    heads of the first model are known by their distances from all heads of the second, on half of
    the documents, and looked for on the other half. Its number is the mean distance of these
    distances.
    """
    above, rows = sums.values("divergence"), sums.values("rows")  # [bucket, ...]
    within = _as_square(sums.values("within"), len(first))  # [bucket, head, head]
    held_out = estimate(_held_out(above, rows), BOUNDS)
    mean = share(leave_one_out(above.mean(axis=(1, 2))), leave_one_out(rows))
    at_random = estimate(mean, BOUNDS)
    own_heads = estimate(_held_out(within, rows), BOUNDS) if len(first) > 1 else (np.nan,) * 3
    distance, refound = _find_again(above, rows)
    matched, other = _assign(above.sum(axis=0))
    same = float((first[matched] == second[other]).all(axis=1).mean())
    lines = [
        ("one to one, held out", *map(float, held_out), same),
        ("at random", *map(float, at_random), 1 / max(len(first), len(second))),
        ("first model, its own other heads", *map(float, own_heads), 0.0),
        ("first model with itself, other documents", distance, np.nan, np.nan, refound),
    ]
    return pd.DataFrame(lines, columns=list(CHANCE_COLUMNS))


def _held_out(
    above: Float[Array, "bucket first second"], rows: Float[Array, " bucket"]
) -> Float[Array, " replicate"]:
    """Replicates of the mean divergence of matches that other folds chose."""
    scored, is_scored = np.zeros(len(rows)), np.zeros(len(rows), bool)
    folds = make_partitions(rows)[0]
    for fold in range(N_FOLDS):
        inside = folds == fold
        if rows[inside].sum() and rows[~inside].sum():
            matched, other = _assign(above[~inside].sum(axis=0))
            scored[inside] = above[inside][:, matched, other].mean(axis=1)
            is_scored |= inside
    return share(leave_one_out(scored), leave_one_out(np.where(is_scored, rows, 0.0)))


def _find_again(
    above: Float[Array, "bucket first second"], rows: Float[Array, " bucket"]
) -> tuple[float, float]:
    """How far the first model's heads are from themselves on other documents, and how many of them
    are found again; NaN where half of the folds have no documents."""
    half_of = make_partitions(rows)[0] % 2  # [bucket]
    halves = [above[part == half_of].sum(axis=0) for part in (0, 1)]
    n_rows = [rows[part == half_of].sum() for part in (0, 1)]
    if not all(n_rows):
        return np.nan, np.nan
    before, other = (half / n for half, n in zip(halves, n_rows, strict=True))  # [head, second]
    apart = np.abs(before[:, None] - other).mean(axis=-1)  # [head, head]
    heads, refound = _assign(apart)
    return float(np.diagonal(apart).mean()), float((heads == refound).mean())


def _as_square(pairs: Float[Array, "bucket pair"], n_heads: int) -> Array:
    """Pairs of heads as a matrix whose diagonal no match would choose."""
    square = np.zeros((len(pairs), n_heads, n_heads))
    rows, other = np.triu_indices(n_heads, 1)
    square[:, rows, other] = square[:, other, rows] = pairs
    square[:, np.arange(n_heads), np.arange(n_heads)] = 1 + pairs.max(initial=0.0)
    return square


SHOWN_MATCHES = 20

MATCH = (
    Column("head", lambda row: f"{row['layer_a']}-{row['head_a']}"),
    Column("match", lambda row: f"{row['layer_b']}-{row['head_b']}"),
    Column("divergence (nats)", lambda row: NATS.row(row, "divergence")),
    Column("support", lambda row: ROUND_PERCENT.number(row["support"]), drop=1),
    Column("mean to all heads", lambda row: NATS.number(row["mean_divergence"]), drop=2),
    Column("", lambda row: "each other's nearest" if row["is_mutual"] else "", drop=3),
)


def read_matches(matches: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The closest matches, closest first; and how alike matched heads are beside any two."""
    closest = matches.sort_values("divergence", kind="stable").head(SHOWN_MATCHES)
    n_more = len(matches) - len(closest)
    note = f"({n_more} more in the tables)" if n_more else ""
    return [build_table(closest.to_dict("records"), MATCH, note=note), _summarize(matches)]


def build_page_tables(tables: Tables) -> list[TextTable]:
    """All matches, closest first, and their summary."""
    matches = tables["head-matches"]
    note = (
        "Divergence: mean Jensen-Shannon divergence (0 identical, 0.69 disjoint). Support: share "
        "of resamples of the documents that give the same match."
    )
    rows = matches.sort_values("divergence", kind="stable").to_dict("records")
    chance = [
        replace(table, title="Matches compared with chance")
        for table in read_chance(tables.get("head-matches-chance", pd.DataFrame()), 0)
    ]
    closest = build_table(rows, MATCH, "All matches, closest first", note)
    return [_summarize(matches), *chance, closest]


def _summarize(matches: pd.DataFrame) -> TextTable:
    """How alike matched heads are beside any two, and whether they stand at the same depth."""
    first, second = matches["layer_a"], matches["layer_b"]
    is_deep = min(first.nunique(), second.nunique()) > 1  # one layer has no order
    depth = first.corr(second, method="spearman") if is_deep else float("nan")
    rows = (
        ("matched heads", str(len(matches))),
        ("mean divergence of matches", NATS.number(matches["divergence"].mean())),
        ("mean divergence of all pairs", NATS.number(matches["mean_divergence"].mean())),
        ("each other's nearest", str(int(matches["is_mutual"].sum()))),
        ("at the same place (layer and head)", str(int(_is_same_place(matches).sum()))),
        ("rank correlation of layers", RATIO.number(depth)),
    )
    return TextTable(("all matches", ""), rows)


CHANCE = (
    Column("matching", lambda row: str(row["matching"])),
    Column("mean divergence (nats)", lambda row: NATS.row(row, "divergence")),
    Column("same layer and head", lambda row: ROUND_PERCENT.number(row["same_head"])),
)


def read_chance(chance: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The matches, held out, beside what chance gives."""
    return [build_table(chance.to_dict("records"), CHANCE)] if len(chance) else []


def _is_same_place(matches: pd.DataFrame) -> pd.Series[bool]:
    is_same_layer = matches["layer_a"] == matches["layer_b"]
    return is_same_layer & (matches["head_a"] == matches["head_b"])


def answer_matches(tables: Tables) -> list[Answer]:
    """How alike the heads are, how many match each other, and the closest of them."""
    matches = tables["head-matches"].sort_values("divergence", kind="stable")
    matched, any_two = matches["divergence"].mean(), matches["mean_divergence"].mean()
    n_heads, n_mutual = len(matches), int(matches["is_mutual"].sum())
    top, n_same = matches.iloc[0], int(_is_same_place(matches).sum())
    pair = f"{top['layer_a']:.0f}-{top['head_a']:.0f}", f"{top['layer_b']:.0f}-{top['head_b']:.0f}"
    alike = (
        f"On average, matched heads differ by {NATS.number(matched)}, any two heads by "
        f"{NATS.number(any_two)} (Jensen-Shannon divergence: 0 identical, 0.69 disjoint)."
    )
    mutual = (
        f"{n_mutual} of {n_heads} matches {'is' if n_mutual == 1 else 'are'} of two heads that "
        "are each other's nearest."
    )
    closest = f"The closest match is head {pair[0]} with head {pair[1]} of the second model."
    match = "matches" if n_same == 1 else "match"
    same = f"{n_same} of {n_heads} heads {match} the head at the same place."
    detail = f"Divergence {NATS.row(top, 'divergence')} nats."
    return [
        Answer(alike, 1.0, figure="matches-by-layer"),
        Answer(mutual, 0.95),
        Answer(closest, 0.9, detail, figure="matches-by-layer"),
        Answer(same, 0.85, figure="matches-of-layers"),
    ]


CHARTS = "headscope.analyses.distance.charts"
MADE_BY = "(headscope distance A B --text FILE)"
PRESENTATION = Presentation(PAIR, made_by=MADE_BY, show=[
    Figure(
        name="matches-by-layer", needs=("head-matches",), draw_tables=f"{CHARTS}:draw_by_layer",
        title="How close each head's match is",
        caption="Each dot is a head of the first model. y: divergence from its match in the second "
        "model (0 identical, 0.69 disjoint). Grey tick: its mean divergence from all heads of the "
        "second model. A real match is far below the tick.",
    ),
    Figure(
        name="matches-of-layers", needs=("head-matches",), draw_tables=f"{CHARTS}:draw_layers",
        in_line=2, title="Which layers match",
        caption="Rows: layers of the first model. Columns: layers of the second. The darker a "
        "cell, the more heads match between the two layers. A dark diagonal: heads at the same "
        "depth match.",
    ),
    AnswerMaker(("head-matches",), answer_matches),
    PrintedTable("head-matches", read_matches),
    PrintedTable("head-matches-chance", read_chance),
    PageTable("Matched heads", "(headscope distance)", "head-matches", build_page_tables),
])  # fmt: skip
