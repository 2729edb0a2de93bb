"""Heads as parsers, word by word (paper, sections 4.1 and 4.2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headscope.data.encoding import Encoding
from tests.references.measures import Maps, Rows, heads


def word_map(
    weights: np.ndarray[Any, Any], encoding: Encoding, query_pieces: str = "mean"
) -> list[list[float]]:
    """Attention to a word is the sum over its pieces; from a word, the mean over its pieces."""
    n_words = len(encoding.example.words or ())
    pieces = [[t for t, w in enumerate(encoding.word_ids) if w == word] for word in range(n_words)]
    result = []
    for word in range(n_words):
        asking = pieces[word][:1] if query_pieces == "first" else pieces[word]
        row = []
        for other in range(n_words):
            sums = [sum(weights[query][key] for key in pieces[other]) for query in asking]
            row.append(sum(sums) / len(sums) if sums else 0.0)
        result.append(row)
    return result


def predict(scores: dict[int, float]) -> int | None:
    """The word with the highest score; of equal ones the first."""
    best = None
    for word in sorted(scores):
        if best is None or scores[word] > scores[best]:
            best = word
    return best


def predictions(words: list[list[float]], encoding: Encoding, direction: str) -> list[int | None]:
    present = sorted({int(w) for w in encoding.word_ids if w >= 0})
    found: list[int | None] = []
    for word in range(len(words)):
        if word not in present:
            found.append(None)
        elif direction == "dependent-to-head":
            found.append(predict({other: words[word][other] for other in present if other != word}))
        else:
            found.append(predict({other: words[other][word] for other in present if other != word}))
    return found


def names_of(encoding: Encoding, word: int) -> list[str]:
    tree = encoding.example.tree
    assert tree is not None
    present = {int(w) for w in encoding.word_ids if w >= 0}
    head, relation = tree.heads[word], tree.relations[word]
    if word not in present or (head >= 0 and head not in present):
        return []
    if head < 0:
        return ["all"]
    names = ["all", relation]
    if relation != "punct":
        names.append("all (no punct or root)")
    if relation == "poss":
        names.append("poss (no 's rule)")
    return names


def is_correct(name: str, word: int, found: list[int | None], encoding: Encoding) -> bool:
    tree, words = encoding.example.tree, encoding.example.words
    assert tree is not None
    assert words is not None
    if found[word] == tree.heads[word]:
        return True
    has_mark = word + 1 < len(words) and words[word + 1] in ("'s", "\u2019s", "'")
    return name == "poss" and has_mark and found[word + 1] == tree.heads[word]


def dependency(maps: Maps, encodings: Sequence[Encoding], query_pieces: str = "mean") -> Rows:
    correct: dict[tuple[Any, ...], int] = {}
    count: dict[tuple[Any, ...], int] = {}
    for layer, head in heads(maps):
        for example, encoding in zip(maps, encodings, strict=True):
            words = word_map(example[layer][head], encoding, query_pieces)
            for direction in ("dependent-to-head", "head-to-dependent"):
                found = predictions(words, encoding, direction)
                for word in range(len(words)):
                    for name in names_of(encoding, word):
                        key = (name, direction, layer + 1, head + 1)
                        count[key] = count.get(key, 0) + 1
                        is_right = is_correct(name, word, found, encoding)
                        correct[key] = correct.get(key, 0) + is_right
    return {key: correct[key] / count[key] for key in count}


def offsets(encodings: Sequence[Encoding]) -> Rows:
    correct: dict[tuple[Any, ...], int] = {}
    count: dict[tuple[Any, ...], int] = {}
    for encoding in encodings:
        n_words = len(encoding.example.words or ())
        for offset in [o for o in range(-10, 11) if o]:
            found: list[int | None] = [
                w + offset if 0 <= w + offset < n_words else None for w in range(n_words)
            ]
            for word in range(n_words):
                for name in names_of(encoding, word):
                    key = (name, offset)
                    count[key] = count.get(key, 0) + 1
                    is_right = is_correct(name, word, found, encoding)
                    correct[key] = correct.get(key, 0) + is_right
    return {key: correct[key] / count[key] for key in count}
