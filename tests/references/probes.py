"""Probes in slow, obvious loops."""

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np
from scipy.stats import t as student

from headscope.probes.treebank import NO_HEAD, Sentence, is_punctuation

Maps = np.ndarray  # [word, other, map]; the last two others are [CLS] and [SEP]


def candidate_features(maps: Maps, dependent: int) -> dict[int, np.ndarray]:
    """The features of every candidate head of a word; -1 is ROOT."""
    n, n_maps = len(maps), maps.shape[-1]
    features = {}
    for other in range(n):
        if other != dependent:
            vector = np.zeros(4 * n_maps + 1)
            for k in range(n_maps):
                vector[k] = maps[dependent, other, k]
                vector[n_maps + k] = maps[other, dependent, k]
            features[other] = vector
    root = np.zeros(4 * n_maps + 1)
    for k in range(n_maps):
        root[2 * n_maps + k] = maps[dependent, n, k]
        root[3 * n_maps + k] = maps[dependent, n + 1, k]
    root[-1] = 1.0
    features[-1] = root
    return features


def attention_only_loss(
    maps: Sequence[Maps], sentences: Sequence[Sentence], weights: np.ndarray, penalty: float
) -> tuple[float, np.ndarray]:
    """The mean loss of a word with the penalty, and its gradient."""
    loss, gradient, count = 0.0, np.zeros_like(weights), 0
    for cells, sentence in zip(maps, sentences, strict=True):
        for dependent, head in enumerate(sentence.heads):
            if head == NO_HEAD:
                continue
            features = candidate_features(cells, dependent)
            grades = {c: exp(float(weights @ f)) for c, f in features.items()}
            total = sum(grades.values())
            loss -= log(grades[int(head)] / total)
            for candidate, feature in features.items():
                chance = grades[candidate] / total
                gradient += (chance - (candidate == head)) * feature
            count += 1
    gradient = gradient / count + penalty * weights
    return loss / count + penalty / 2 * float(sum(w * w for w in weights)), gradient


def attention_and_words_score(
    maps: Maps, vectors: Sequence[np.ndarray], root: np.ndarray, weights: dict[str, np.ndarray]
) -> np.ndarray:
    """Scores [word, candidate], ROOT last: head weights are linear in the two words' vectors."""
    n, n_maps = len(maps), maps.shape[-1]
    scores = np.full((n, n + 1), -np.inf)
    for dependent in range(n):
        for candidate in range(n + 1):
            if candidate == dependent:
                continue
            other = root if candidate == n else vectors[candidate]
            total = float(weights["root"]) if candidate == n else 0.0
            for k in range(n_maps):
                if candidate == n:
                    cells = {2: maps[dependent, n, k], 3: maps[dependent, n + 1, k]}
                else:
                    cells = {0: maps[dependent, candidate, k], 1: maps[candidate, dependent, k]}
                for kind, cell in cells.items():
                    index = kind * n_maps + k
                    weight = weights["constant"][index]
                    weight += vectors[dependent] @ weights["by_dependent"][:, index]
                    weight += other @ weights["by_candidate"][:, index]
                    total += cell * weight
            scores[dependent, candidate] = total
    return scores


def attachment_counts(sentence: Sentence, scores: np.ndarray) -> tuple[int, int, int, int]:
    """Found and to be found, without and then with punctuation; every word's best candidate."""
    found = count = found_all = count_all = 0
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        if head == NO_HEAD:
            continue
        best = max(range(len(sentence) + 1), key=lambda candidate: scores[word, candidate])
        is_right = (-1 if best == len(sentence) else best) == head
        count_all, found_all = count_all + 1, found_all + is_right
        if not is_punctuation(relation):
            count, found = count + 1, found + is_right
    return found, count, found_all, count_all


def uas_difference(
    sentences: Sequence[Sentence], scores: Sequence[np.ndarray], others: Sequence[np.ndarray]
) -> tuple[float, float, float, float]:
    """The UAS of one probe minus another's with its interval and p-value, over buckets."""

    def difference(without: int | None) -> float:
        gap = count = 0
        for sentence, one, other in zip(sentences, scores, others, strict=True):
            if sentence.bucket != without:
                (found, n, *_), (found_other, *_) = (
                    attachment_counts(sentence, part) for part in (one, other)
                )
                gap, count = gap + found - found_other, count + n
        return gap / count

    buckets = sorted({sentence.bucket for sentence in sentences if sentence.is_scored.any()})
    value, k = difference(None), len(buckets)
    squares = sum((difference(bucket) - value) ** 2 for bucket in buckets)
    error = sqrt((k - 1) / k * squares)
    half = float(student.ppf(0.975, k - 1)) * error
    return value, value - half, value + half, 2 * float(student.sf(abs(value) / error, k - 1))


def best_tree_score(scores: np.ndarray) -> float:
    """The highest total score of any tree with one word on ROOT, by trying all assignments."""
    n = len(scores)
    best = -np.inf
    for code in range((n + 1) ** n):
        heads = [(code // (n + 1) ** word) % (n + 1) for word in range(n)]
        if heads.count(n) == 1 and all(_reaches_root(heads, word) for word in range(n)):
            best = max(best, sum(scores[word, head] for word, head in enumerate(heads)))
    return best


def _reaches_root(heads: list[int], word: int) -> bool:
    for _ in heads:
        word = heads[word]
        if word == len(heads):
            return True
    return False
