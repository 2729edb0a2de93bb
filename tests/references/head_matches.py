"""Matches of heads beside chance: every way to match is tried, example by example."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean

from scipy.stats import t as student

from tests.references.comparison import jackknife
from tests.references.distance import jensen_shannon
from tests.references.folds import make_partitions
from tests.references.measures import Maps, heads

Matrix = list[list[float]]
Match = list[tuple[int, int]]


@dataclass(frozen=True)
class Divergences:
    """Of one example, summed over its rows, for every two heads."""

    bucket: int
    n_rows: int
    across: Matrix  # heads of the first model x heads of the second
    own: Matrix  # heads of the first model x its heads


def diverge(maps: Maps, buckets: Sequence[int], n_layers: int) -> list[Divergences]:
    """The first layers are one model, the others another."""
    first = [head for head in heads(maps) if head[0] < n_layers]
    second = [head for head in heads(maps) if head[0] >= n_layers]

    def between(example: object, ones: list[tuple[int, int]]) -> Matrix:
        return [
            [
                sum(
                    jensen_shannon(p.tolist(), q.tolist())
                    for p, q in zip(example[one], example[other], strict=True)  # type: ignore[index]
                )
                for other in ones
            ]
            for one in first
        ]

    return [
        Divergences(bucket, example.shape[2], between(example, second), between(example, first))
        for example, bucket in zip(maps, buckets, strict=True)
    ]


def add(matrices: Iterable[Matrix]) -> Matrix:
    return [[sum(cell) for cell in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)]


def best_match(matrix: Matrix, is_own: bool = False) -> Match:
    """Of all ways to match one to one that with the least sum; a head does not match itself."""
    ways = permutations(range(len(matrix[0])), len(matrix))
    allowed = (w for w in ways if not is_own or all(i != j for i, j in enumerate(w)))
    return list(enumerate(min(allowed, key=lambda w: sum(matrix[i][j] for i, j in enumerate(w)))))


def with_interval(scores: Sequence[tuple[int, int, float]]) -> tuple[float, float, float]:
    """Sum over rows of (bucket, rows, sum), without each bucket in turn, and the t interval."""

    def ratio(without: int | None) -> float:
        kept = [score for score in scores if score[0] != without]
        return sum(s for *_, s in kept) / sum(n for _, n, _ in kept)

    buckets = sorted({bucket for bucket, *_ in scores})
    error = jackknife(ratio(None), [ratio(bucket) for bucket in buckets])
    half = float(student.ppf(0.975, len(buckets) - 1)) * error
    return ratio(None), ratio(None) - half, ratio(None) + half


def held_out(examples: Sequence[Divergences], is_own: bool = False) -> tuple[float, float, float]:
    """Matched on the documents of seven folds, scored on those of the eighth."""
    scores, folds = [], _first_partition(examples)
    for fold in {folds[example.bucket] for example in examples}:
        others = [e for e in examples if folds[e.bucket] != fold]
        match = best_match(add((e.own if is_own else e.across) for e in others), is_own)
        for example in (e for e in examples if folds[e.bucket] == fold):
            matrix = example.own if is_own else example.across
            score = fmean(matrix[i][j] for i, j in match)
            scores.append((example.bucket, example.n_rows, score))
    return with_interval(scores)


def _first_partition(examples: Sequence[Divergences]) -> dict[int, int]:
    rows = Counter[int]()
    for example in examples:
        rows[example.bucket] += example.n_rows
    return next(make_partitions(rows))


def at_random(examples: Sequence[Divergences]) -> tuple[float, float, float]:
    return with_interval(
        [(e.bucket, e.n_rows, fmean(cell for row in e.across for cell in row)) for e in examples]
    )


def find_again(examples: Sequence[Divergences]) -> tuple[float, float]:
    """Heads known by their distances to the other model on even folds, looked for on odd ones."""
    halves, folds = [], _first_partition(examples)
    for part in (0, 1):
        own = [e for e in examples if folds[e.bucket] % 2 == part]
        n_rows = sum(e.n_rows for e in own)
        halves.append([[cell / n_rows for cell in row] for row in add(e.across for e in own)])
    apart = [
        [fmean(abs(a - b) for a, b in zip(one, other, strict=True)) for other in halves[1]]
        for one in halves[0]
    ]
    match = best_match(apart)
    return fmean(apart[i][i] for i in range(len(apart))), fmean(i == j for i, j in match)
