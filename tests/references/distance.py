"""Jensen-Shannon divergence between heads in slow, obvious loops, in float64."""

from collections.abc import Sequence
from itertools import combinations
from math import log

from headscope.data.encoding import Encoding
from tests.references.measures import Maps, Rows, heads


def relative_entropy(p: Sequence[float], q: Sequence[float]) -> float:
    """Kullback-Leibler divergence of p from q, in nats."""
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def jensen_shannon(p: Sequence[float], q: Sequence[float]) -> float:
    """The mean divergence of both from their middle: the definition, with two logarithms."""
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (relative_entropy(p, middle) + relative_entropy(q, middle)) / 2


def distance(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for one, other in combinations(heads(maps), 2):
        found = [
            jensen_shannon(p.tolist(), q.tolist())
            for example in maps
            for p, q in zip(example[one], example[other], strict=True)
        ]
        key = (one[0] + 1, one[1] + 1, other[0] + 1, other[1] + 1)
        rows[key] = sum(found) / len(found)
    return rows


def pool_to_words(
    rows: Sequence[Sequence[float]], word_ids: Sequence[int], n_words: int
) -> list[list[float]]:
    """Attention between words: summed over pieces attended to, averaged over those that attend.

    The last key is what goes to none of these words.
    """
    pooled = []
    for word in range(n_words):
        own = [row for row, owner in zip(rows, word_ids, strict=True) if owner == word]
        line = [0.0] * n_words
        for row in own:
            for weight, key in zip(row, word_ids, strict=True):
                if key >= 0:
                    line[key] += weight / len(own)
        pooled.append([*line, max(0.0, 1 - sum(line))])
    return pooled
