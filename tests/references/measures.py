"""The measures of section 3 in slow, obvious loops. What the package computes must equal these.

Each function takes the maps of every example, `maps[example][layer][head][query][key]`, and the
encodings, and returns {(layer, head, ...labels): value} with 1-based layers and heads.
"""

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import numpy as np

from headscope.data.encoding import Encoding, TokenKind

Maps = Sequence[np.ndarray[Any, Any]]
Rows = dict[tuple[Any, ...], float]


def heads(maps: Maps) -> Iterator[tuple[int, int]]:
    n_layers, n_heads = maps[0].shape[:2]
    return ((layer, head) for layer in range(n_layers) for head in range(n_heads))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def position(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        for target, offset in (("previous", -1), ("self", 0), ("next", 1)):
            segments = []
            for example in maps:
                weights = example[layer][head]
                n, n_keys = weights.shape
                found = [weights[q][q + offset] for q in range(n) if 0 <= q + offset < n_keys]
                segments.append(sum(found) / n)
            rows[layer + 1, head + 1, target] = mean(segments)
    return rows


def entropy(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        every, opening = [], []
        for example, encoding in zip(maps, encodings, strict=True):
            nats = [-sum(a * log(a) for a in row if a > 0) for row in example[layer][head]]
            every.append(mean(nats))
            kinds = (encoding.target or encoding).kinds  # of what attends
            opening += [n for n, k in zip(nats, kinds, strict=True) if k == TokenKind.CLS][:1]
        rows[layer + 1, head + 1, "all"] = mean(every)
        if opening:
            rows[layer + 1, head + 1, "cls"] = mean(opening)
    return rows


def max_weight(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    return {
        (layer + 1, head + 1): mean(
            [mean([max(row) for row in example[layer][head]]) for example in maps]
        )
        for layer, head in heads(maps)
    }


def token_class(encoding: Encoding, token: int) -> str:
    if encoding.kinds[token] == TokenKind.CLS:
        return "cls"
    if encoding.kinds[token] == TokenKind.SEP:
        return "sep"
    if token == 0:
        return "first"
    return "punctuation" if encoding.surfaces[token] in (".", ",") else "other"


def token_classes(encodings: Sequence[Encoding]) -> list[list[str]]:
    return [[token_class(e, token) for token in range(len(e))] for e in encodings]


def special_tokens(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    classes = token_classes(encodings)
    for layer, head in heads(maps):
        for source in ("all", "sep", "other"):
            for target in ("cls", "sep", "first", "punctuation", "other"):
                segments = []
                for example, encoding, own in zip(maps, encodings, classes, strict=True):
                    queries = encoding.target or encoding
                    found = [
                        sum(w for w, name in zip(row, own, strict=True) if name == target)
                        for query, row in enumerate(example[layer][head].tolist())
                        if source == "all"
                        or (queries.kinds[query] == TokenKind.SEP) == (source == "sep")
                    ]
                    if found:
                        segments.append(mean(found))
                rows[layer + 1, head + 1, source, target] = mean(segments)
    return rows


def sink(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """What rows miss of a sum of 1, by source."""
    rows: Rows = {}
    for layer, head in heads(maps):
        for source in ("all", "sep", "other"):
            segments = []
            for example, encoding in zip(maps, encodings, strict=True):
                found = [
                    1 - sum(row)
                    for query, row in enumerate(example[layer][head])
                    if source == "all"
                    or (encoding.kinds[query] == TokenKind.SEP) == (source == "sep")
                ]
                if found:
                    segments.append(mean(found))
            rows[layer + 1, head + 1, source, "sink"] = mean(segments)
    return rows


def gradient(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """Mean size over all pairs of tokens, by class of the attended one."""
    rows: Rows = {}
    classes = token_classes(encodings)
    for layer, head in heads(maps):
        for target in ("cls", "sep", "first", "punctuation", "other"):
            found = [
                abs(size)
                for example, own in zip(maps, classes, strict=True)
                for row in example[layer][head].tolist()
                for size, name in zip(row, own, strict=True)
                if name == target
            ]
            rows[layer + 1, head + 1, target] = mean(found)
    return rows


def parts_of_speech(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """Mean over words of what their pieces attend to in the mean, by class of token."""
    found: dict[tuple[Any, ...], list[float]] = {}
    classes = token_classes(encodings)
    for layer, head in heads(maps):
        for example, encoding, own in zip(maps, encodings, classes, strict=True):
            weights = example[layer][head].tolist()
            for word, tag in enumerate(encoding.example.tags or ()):
                pieces = [t for t, w in enumerate(encoding.word_ids) if w == word]
                if not pieces:
                    continue
                sources = [tag]
                if tag != "PRON":
                    sources.append("nouns" if tag in ("NOUN", "PROPN") else "not nouns")
                for target in ("cls", "sep", "first", "punctuation", "other"):
                    share = mean(
                        [
                            sum(w for w, n in zip(weights[piece], own, strict=True) if n == target)
                            for piece in pieces
                        ]
                    )
                    for source in sources:
                        key = (layer + 1, head + 1, source, target)
                        found.setdefault(key, []).append(share)
    return {key: mean(shares) for key, shares in found.items()}


def word_pieces(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """The share of words with more than one token, of those with any."""
    sizes = []
    for encoding in encodings:
        for word in range(len(encoding.example.words or ())):
            sizes.append(sum(1 for place in encoding.word_ids if place == word))
    sizes = [size for size in sizes if size > 0]
    return {(len(sizes),): mean([float(size > 1) for size in sizes])}
