"""Heads as parsers, word by word (paper, sections 4.1 and 4.2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headscope.data.encoding import Encoding, TokenKind
from tests.references.measures import Maps, Rows, heads


def word_map(
    weights: np.ndarray[Any, Any], encoding: Encoding, query_pieces: str = "mean"
) -> list[list[float]]:
    """Attention to a word is the sum over its pieces; from a word, the mean over its pieces."""
    n_words, rows = len(encoding.example.words or ()), weights.tolist()
    pieces = [[t for t, w in enumerate(encoding.word_ids) if w == word] for word in range(n_words)]
    result = []
    for word in range(n_words):
        asking = pieces[word][:1] if query_pieces == "first" else pieces[word]
        row = []
        for other in range(n_words):
            sums = [sum(rows[query][key] for key in pieces[other]) for query in asking]
            row.append(sum(sums) / len(sums) if sums else 0.0)
        result.append(row)
    return result


def predict(scores: dict[int, float]) -> int | None:
    """The word with the highest score above 0; of equal ones the first."""
    best = None
    for word in sorted(scores):
        if scores[word] > 0 and (best is None or scores[word] > scores[best]):
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
    if relation in ("poss", "nmod:poss"):
        names.append(f"{relation} (no 's rule)")
        if has_mark(encoding, word):
            names += [f"{relation} (before 's)", f"{relation} (by the 's)"]
    return names


def has_mark(encoding: Encoding, word: int) -> bool:
    """Whether an 's with a token follows."""
    words = encoding.example.words or ()
    is_mark = word + 1 < len(words) and words[word + 1] in ("'s", "\u2019s", "'", "\u2019")
    return is_mark and word + 1 in encoding.word_ids


def is_correct(name: str, word: int, found: list[int | None], encoding: Encoding) -> bool:
    tree = encoding.example.tree
    assert tree is not None
    is_found = found[word] == tree.heads[word]
    is_marked = has_mark(encoding, word) and found[word + 1] == tree.heads[word]
    if name.endswith("(by the 's)"):
        return is_marked
    return is_found or (name in ("poss", "nmod:poss") and is_marked)


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
                for word, gold, name in derived_arcs(encoding):
                    key = (name, direction, layer + 1, head + 1)
                    count[key] = count.get(key, 0) + 1
                    correct[key] = correct.get(key, 0) + (found[word] == gold)
    return {key: correct[key] / count[key] for key in count}


def derived_arcs(encoding: Encoding) -> list[tuple[int, int, str]]:
    """The paper's arcs of prepositions, which Universal Dependencies have as case."""
    tree, words = encoding.example.tree, encoding.example.words or ()
    assert tree is not None
    present = {int(w) for w in encoding.word_ids if w >= 0}
    arcs = []
    for noun in range(len(words)):
        prepositions = [
            word
            for word in range(len(words))
            if tree.heads[word] == noun
            and tree.relations[word] in ("case", "case:acc")
            and words[word] not in ("'s", "\u2019s", "'", "\u2019")
        ]
        if not prepositions:
            continue
        arcs.append((noun, prepositions[-1], "pobj (derived)"))
        if tree.relations[noun] in ("nmod", "obl"):
            arcs.append((prepositions[0], tree.heads[noun], "prep (derived)"))
    return [arc for arc in arcs if {arc[0], arc[1]} <= present]


def offsets(encodings: Sequence[Encoding], is_causal: bool = False) -> Rows:
    """By relation, direction and offset; a word may not look ahead in a decoder."""
    correct: dict[tuple[Any, ...], int] = {}
    count: dict[tuple[Any, ...], int] = {}
    for encoding in encodings:
        n_words = len(encoding.example.words or ())
        for direction in ("dependent-to-head", "head-to-dependent"):
            for offset in [o for o in range(-10, 11) if o]:
                is_ahead = (offset > 0) == (direction == "dependent-to-head")
                found: list[int | None] = [
                    w + offset if 0 <= w + offset < n_words else None for w in range(n_words)
                ]
                if is_causal and is_ahead:
                    found = [None] * n_words
                for word in range(n_words):
                    for name in names_of(encoding, word):
                        key = (name, direction, offset)
                        count[key] = count.get(key, 0) + 1
                        is_right = is_correct(name, word, found, encoding)
                        correct[key] = correct.get(key, 0) + is_right
    return {key: correct[key] / count[key] for key in count}


def visible(encodings: Sequence[Encoding]) -> Rows:
    """In a decoder, the share of arcs of which the later word would attend to the earlier one."""
    seen: dict[tuple[Any, ...], int] = {}
    count: dict[tuple[Any, ...], int] = {}
    for encoding in encodings:
        tree = encoding.example.tree
        assert tree is not None
        for word, head in enumerate(tree.heads):
            for name in names_of(encoding, word):
                for direction in ("dependent-to-head", "head-to-dependent"):
                    places = [word + 1] if name.endswith("(by the 's)") else [word]
                    if name in ("poss", "nmod:poss") and has_mark(encoding, word):
                        places.append(word + 1)
                    is_seen = any(
                        head >= 0 and (p > head if direction == "dependent-to-head" else p < head)
                        for p in places
                    )
                    key = (name, direction)
                    count[key] = count.get(key, 0) + 1
                    seen[key] = seen.get(key, 0) + is_seen
    return {key: seen[key] / count[key] for key in count}


def lost_to_special(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """Of all arcs but punctuation and root, those found only while no special token competes."""
    lost: dict[tuple[Any, ...], int] = {}
    count: dict[tuple[Any, ...], int] = {}
    for layer, head in heads(maps):
        for example, encoding in zip(maps, encodings, strict=True):
            weights, tree = example[layer][head], encoding.example.tree
            assert tree is not None
            words = word_map(weights, encoding)
            special = [t for t, kind in enumerate(encoding.kinds) if kind != TokenKind.TEXT]
            for direction in ("dependent-to-head", "head-to-dependent"):
                found = predictions(words, encoding, direction)
                for word in range(len(words)):
                    if "all (no punct or root)" not in names_of(encoding, word):
                        continue
                    pieces = [t for t, w in enumerate(encoding.word_ids) if w == word]
                    if direction == "dependent-to-head":
                        best = words[word][found[word]] if found[word] is not None else 0.0
                        rivals = [sum(weights[p][s] for p in pieces) / len(pieces) for s in special]
                    else:
                        best = words[found[word]][word] if found[word] is not None else 0.0
                        rivals = [sum(weights[s][p] for p in pieces) for s in special]
                    key = (direction, layer + 1, head + 1)
                    count[key] = count.get(key, 0) + 1
                    is_lost = found[word] == tree.heads[word] and max(rivals) >= best
                    lost[key] = lost.get(key, 0) + is_lost
    return {key: lost[key] / count[key] for key in count}


def lengths(encodings: Sequence[Encoding]) -> Rows:
    """The mean distance in words of dependents from their heads."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for encoding in encodings:
        tree = encoding.example.tree
        assert tree is not None
        for word, head in enumerate(tree.heads):
            names = names_of(encoding, word)
            single = [n for n in names if n != "all" and " (" not in n]
            whole = [n for n in names if n == "all (no punct or root)"]
            for name in [*single, *whole]:
                found.setdefault((name,), []).append(abs(word - head))
    return {key: sum(values) / len(values) for key, values in found.items()}


def serving_head(
    accuracies: dict[tuple[int, int, str], dict[str, tuple[float, float]]],
    baselines: dict[str, float],
) -> tuple[tuple[int, int, str], int, float]:
    """The head whose low end passes the baseline in most treebanks, of equal ones the one with the
    highest mean; in how many; and the mean of the heads that are best on the other treebanks.

    `accuracies` has the accuracy and the low end of each head in each treebank.
    """
    banks = list(baselines)

    def mean(head: tuple[int, int, str], of: list[str]) -> float:
        return sum(accuracies[head][bank][0] for bank in of) / len(of)

    def serves(head: tuple[int, int, str]) -> int:
        return sum(accuracies[head][bank][1] > baselines[bank] for bank in banks)

    best = max(accuracies, key=lambda head: (serves(head), mean(head, banks)))
    moved = 0.0
    for bank in banks:
        others = [other for other in banks if other != bank]
        chosen = max(accuracies, key=lambda head: mean(head, others))
        moved += accuracies[chosen][bank][0] / len(banks)
    return best, serves(best), moved
