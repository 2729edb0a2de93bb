"""Differences of two runs, in loops over documents straight from the definitions."""

from collections.abc import Sequence
from itertools import product

from scipy.stats import t as student

from tests.references.folds import make_partitions

Documents = dict[int, list[float]]  # the numbers of the segments of each bucket


def mean_without(documents: Documents, bucket: int | None) -> float:
    """The mean over segments, those of one bucket left out."""
    kept = [value for own, values in documents.items() if own != bucket for value in values]
    return sum(kept) / len(kept)


def jackknife(whole: float, rest: Sequence[float]) -> float:
    """The standard error from what is left without each bucket."""
    n = len(rest)
    return float(((n - 1) / n * sum((part - whole) ** 2 for part in rest)) ** 0.5)


def paired(one: Documents, other: Documents) -> tuple[float, float, float, float]:
    """Difference of means over the same buckets, its interval, and p by t or by flipped signs."""
    assert one.keys() == other.keys()
    whole = mean_without(one, None) - mean_without(other, None)
    rest = [mean_without(one, b) - mean_without(other, b) for b in one]
    n, error = len(rest), jackknife(whole, rest)
    half = float(student.ppf(0.975, n - 1)) * error
    p_value = 2 * float(student.sf(abs(whole) / error, n - 1))
    if n <= 12:
        pseudo = [n * whole - (n - 1) * part for part in rest]
        sums = [sum(s * v for s, v in zip(signs, pseudo, strict=True))
                for signs in product((1, -1), repeat=n)]  # fmt: skip
        p_value = sum(abs(s) >= abs(sum(pseudo)) - 1e-9 for s in sums) / len(sums)
    return whole, whole - half, whole + half, p_value


def unpaired(one: Documents, other: Documents) -> tuple[float, float, float, float]:
    """Difference of means over different documents: Welch's t."""
    whole = mean_without(one, None) - mean_without(other, None)
    errors = [
        jackknife(mean_without(d, None), [mean_without(d, b) for b in d]) for d in (one, other)
    ]
    variance = sum(error**2 for error in errors)
    parts = [error**4 / (len(d) - 1) for error, d in zip(errors, (one, other), strict=True)]
    freedom = variance**2 / sum(parts)
    half = float(student.ppf(0.975, freedom)) * variance**0.5
    p_value = 2 * float(student.sf(abs(whole) / variance**0.5, freedom))
    return whole, whole - half, whole + half, p_value


def held_out_best(heads: Sequence[Documents]) -> float:
    """The mean over buckets of the pseudo-value of the head whose pseudo-values are the largest in
    the other folds, over all ways to make the folds."""
    buckets = list(heads[0])
    n = len(buckets)

    def adds(head: Documents, bucket: int) -> float:
        return n * mean_without(head, None) - (n - 1) * mean_without(head, bucket)

    scores = []
    for folds in make_partitions(dict.fromkeys(buckets, 1.0)):
        for bucket in buckets:
            others = [other for other in buckets if folds[other] != folds[bucket]]
            chosen = max(heads, key=lambda head: sum(adds(head, b) for b in others))
            scores.append(adds(chosen, bucket))
    return sum(scores) / len(scores)


def first_and_lasting(verdicts: Sequence[tuple[int, bool]]) -> tuple[int | None, int | None]:
    """The first step that holds, and the first whose own and all later ones hold."""
    first = [step for step, holds in verdicts if holds]
    lasting = [s for s, _ in verdicts if all(holds for step, holds in verdicts if step >= s)]
    return (min(first) if first else None, min(lasting) if lasting else None)


def correlate_layers(one: list[float], other: list[float]) -> float:
    """Pearson's correlation over layers, the longer curve read off at the depths of the shorter."""
    n = min(len(one), len(other))
    a, b = ([_at_depth(curve, (layer + 0.5) / n) for layer in range(n)] for curve in (one, other))
    mean_a, mean_b = sum(a) / n, sum(b) / n
    above = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    squares = [sum((x - m) ** 2 for x in part) for part, m in ((a, mean_a), (b, mean_b))]
    return above / float(squares[0] * squares[1]) ** 0.5


def _at_depth(curve: list[float], depth: float) -> float:
    n = len(curve)
    place = depth * n - 0.5  # in layers
    before = min(max(int(place // 1), 0), n - 1)
    after = min(before + 1, n - 1)
    share = min(max(place - before, 0.0), 1.0)
    return (1 - share) * curve[before] + share * curve[after]
