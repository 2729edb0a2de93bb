"""Effective sample sizes of any number, from what it is for examples of any weight.

`number(weights)` gives it for one weight by example. Without the examples of a bucket their weights
are 0: that is the jackknife. The variance over independent examples is the sum of the squares of
what each example adds, by a small change of its weight.
"""

from collections.abc import Callable, Sequence
from math import isnan, nan

from tests.references.comparison import jackknife

Weights = Sequence[float]
Number = Callable[[Weights], float]
STEP = 1e-4


def mean(values: Sequence[float]) -> Number:
    """Of the examples that have the number."""

    def number(weights: Weights) -> float:
        known = [(v, w) for v, w in zip(values, weights, strict=True) if not isnan(v)]
        total = sum(w for _, w in known)
        return sum(v * w for v, w in known) / total if total else nan

    return number


def ratio(above: Sequence[float], below: Sequence[float]) -> Number:
    def number(weights: Weights) -> float:
        total = sum(b * w for b, w in zip(below, weights, strict=True))
        return sum(a * w for a, w in zip(above, weights, strict=True)) / total if total else nan

    return number


def average(numbers: Sequence[Number]) -> Number:
    return lambda weights: sum(one(weights) for one in numbers) / len(numbers)


def minus(one: Number, other: Number) -> Number:
    return lambda weights: one(weights) - other(weights)


def standard_error(number: Number, buckets: Sequence[int], has: Sequence[bool]) -> float:
    """Over the buckets of examples that have the number."""
    used = sorted({bucket for bucket, own in zip(buckets, has, strict=True) if own})
    rest = [number([float(own != bucket) for own in buckets]) for bucket in used]
    return jackknife(number([1.0] * len(buckets)), rest)


def independent_variance(number: Number, n_examples: int) -> float:
    total = 0.0
    for example in range(n_examples):
        ends = []
        for step in (STEP, -STEP):
            weights = [1.0] * n_examples
            weights[example] += step
            ends.append(number(weights))
        total += ((ends[0] - ends[1]) / (2 * STEP)) ** 2
    return total


def effective(number: Number, buckets: Sequence[int], has: Sequence[bool] | None = None) -> float:
    """`has` says which examples have the number; NaN where it does not vary."""
    has = has or [True] * len(buckets)
    n, error = sum(has), standard_error(number, buckets, has)
    if isnan(error) or error < 1e-13:
        return nan
    found = n * independent_variance(number, len(buckets)) / error**2
    return float(min(max(found, 1), n))


def effective_share(
    found: Sequence[float], count: Sequence[float], buckets: Sequence[int]
) -> float:
    """Of right answers: the design effect, with one more of the rare answers for caution."""
    n, share = sum(count), sum(found) / sum(count)
    has = [own > 0 for own in count]
    k = len({bucket for bucket, own in zip(buckets, has, strict=True) if own})
    variance = standard_error(ratio(found, count), buckets, has) ** 2
    effect = max(variance / (share * (1 - share) / n), 1) if 0 < share < 1 else 1
    n_rare = min(share, 1 - share) * n
    return n * (n_rare + 1) / (n_rare * effect + max((n / k) ** 0.5, 1))
