"""Cross attention in slow, obvious loops: `maps[example][layer][head][target][source]`."""

from collections.abc import Sequence
from math import sqrt

from headscope.data.encoding import Encoding, TokenKind
from tests.references.measures import Maps, Rows, heads, mean


def correlation(pairs: Sequence[tuple[float, float, float]]) -> float:
    """Pearson's, of weighted pairs (x, y, weight)."""
    total = sum(w for _, _, w in pairs)
    mean_x = sum(w * x for x, _, w in pairs) / total
    mean_y = sum(w * y for _, y, w in pairs) / total
    both = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in pairs)
    of_x = sum(w * (x - mean_x) ** 2 for x, _, w in pairs)
    of_y = sum(w * (y - mean_y) ** 2 for _, y, w in pairs)
    return both / sqrt(of_x * of_y)


def monotonicity(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        segments = []
        for example, encoding in zip(maps, encodings, strict=True):
            assert encoding.target is not None
            text = [k for k, kind in enumerate(encoding.kinds) if kind == TokenKind.TEXT]
            # The decoder reads the token before the one that it writes.
            read = [q for q, kind in enumerate(encoding.target.kinds) if kind == TokenKind.TEXT]
            rows_of_text = [q - 1 for q in read]
            if len(text) > 1 and len(rows_of_text) > 1:
                pairs = [(q, k, example[layer][head][q][k]) for q in rows_of_text for k in text]
                segments.append(correlation(pairs))
        rows[layer + 1, head + 1] = mean(segments)
    return rows


def word_alignment(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        for step, offset in (("output", -1), ("input", 0)):
            n_sure_found = n_found = n_links = n_sure = 0
            for example, encoding in zip(maps, encodings, strict=True):
                assert encoding.target is not None
                links = align(example[layer][head], encoding, encoding.target, offset)
                gold = encoding.example.links or ()
                sure = {(s, t) for s, t, is_sure in gold if is_sure}
                n_sure_found += len(links & sure)
                n_found += len(links & {(s, t) for s, t, _ in gold})
                n_links += len(links)
                n_sure += len(sure)
            error = 1 - (n_sure_found + n_found) / (n_links + n_sure)
            rows[layer + 1, head + 1, step] = error
    return rows


def align(
    weights: Sequence[Sequence[float]], source: Encoding, target: Encoding, offset: int
) -> set[tuple[int, int]]:
    """The source word that each target word attends to most."""
    links = set()
    for word in sorted(set(target.word_ids.tolist()) - {-1}):
        own = [q + offset for q, w in enumerate(target.word_ids) if w == word]
        scores = {}
        for other in sorted(set(source.word_ids.tolist()) - {-1}):
            pieces = [k for k, w in enumerate(source.word_ids) if w == other]
            scores[other] = mean([sum(weights[q][k] for k in pieces) for q in own])
        links.add((max(scores, key=lambda other: (scores[other], -other)), word))
    return links
