"""Structural probes, control tasks and codes in slow, obvious loops."""

from collections.abc import Sequence
from itertools import combinations
from math import exp, log, log2

import numpy as np

from headscope.probes.treebank import NO_HEAD, Sentence


def tree_distance(sentence: Sentence, one: int, other: int) -> int:
    """The arcs between two words, found by walking; ROOT is a node."""
    links: dict[int, set[int]] = {}
    for word, head in enumerate(sentence.heads):
        links.setdefault(word, set()).add(int(head))
        links.setdefault(int(head), set()).add(word)
    reached, n_steps = {one}, 0
    while other not in reached:
        reached |= {there for place in reached for there in links[place]}
        n_steps += 1
    return n_steps


def structural_scores(
    vectors: np.ndarray, scale: np.ndarray, distance: np.ndarray, depth: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances, depths, and the scores of candidates, ROOT last."""
    n = len(vectors)
    placed = [(v / scale) @ distance for v in vectors]
    depths = np.array([sum(((v / scale) @ depth) ** 2) for v in vectors])
    distances = np.array([[sum((a - b) ** 2) for b in placed] for a in placed])
    scores = np.full((n, n + 1), -np.inf)
    for i in range(n):
        for j in range(n):
            if i != j:
                scores[i, j] = -abs(distances[i, j] - 1) - abs(depths[i] - depths[j] - 1)
        scores[i, n] = -2 * abs(depths[i])
    return distances, depths, scores


def structural_loss(sentence: Sentence, distances: np.ndarray, depths: np.ndarray) -> float:
    n, loss = len(sentence), 0.0
    for i in range(n):
        for j in range(n):
            loss += abs(distances[i, j] - tree_distance(sentence, i, j)) / n**2
        loss += abs(depths[i] - (tree_distance(sentence, i, -1) - 1)) / n
    return loss


def spanning_edges(distances: np.ndarray, words: Sequence[int]) -> set[tuple[int, int]]:
    """Kruskal's minimum spanning tree."""
    island = {word: word for word in words}
    edges = set()
    for a, b in sorted(combinations(words, 2), key=lambda pair: distances[pair]):
        if island[a] != island[b]:
            edges.add((a, b))
            island = {w: island[a] if place == island[b] else place for w, place in island.items()}
    return edges


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: Pearson's correlation of ranks, equal values sharing theirs."""

    def ranks(values: Sequence[float]) -> list[float]:
        return [
            sum(v < value for v in values) + (sum(v == value for v in values) + 1) / 2
            for value in values
        ]

    a, b = ranks(one), ranks(other)
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def hewitt_manning(
    sentences: Sequence[Sentence], distances: Sequence[np.ndarray], depths: Sequence[np.ndarray]
) -> dict[str, float]:
    """UUAS, root accuracy, and both correlations averaged within lengths, then over lengths."""
    found = count = roots = n_roots = 0
    by_word: dict[int, list[float]] = {}
    by_sentence: dict[int, list[float]] = {}
    for sentence, far, deep in zip(sentences, distances, depths, strict=True):
        n = len(sentence)
        gold = np.array([[tree_distance(sentence, i, j) for j in range(n)] for i in range(n)])
        gold_depths = [tree_distance(sentence, i, -1) - 1 for i in range(n)]
        words = [i for i in range(n) if sentence.is_word[i]]
        edges = spanning_edges(gold, words)
        found += len(edges & spanning_edges(far, words))
        count += len(edges)
        if any(gold_depths[i] == 0 for i in words):
            roots += gold_depths[min(words, key=lambda i: deep[i])] == 0
            n_roots += 1
        if 5 <= n <= 50:
            by_word.setdefault(n, []).extend(rank_correlation(far[i], gold[i]) for i in range(n))
            by_sentence.setdefault(n, []).append(rank_correlation(deep, gold_depths))
    return {
        "uuas": found / count,
        "root_accuracy": roots / n_roots,
        "distance_spearman": float(np.mean([np.mean(values) for values in by_word.values()])),
        "depth_spearman": float(np.mean([np.mean(values) for values in by_sentence.values()])),
    }


def code_length(sentence: Sentence, scores: np.ndarray) -> float:
    """The bits of a sentence's heads."""
    bits = 0.0
    for word, head in enumerate(sentence.heads):
        if head != NO_HEAD:
            grades = [exp(score) for score in scores[word]]
            bits -= log2(grades[head] / sum(grades))  # ROOT, -1, is the last
    return bits


def uniform_length(sentence: Sentence) -> float:
    return sum(log2(len(sentence)) for head in sentence.heads if head != NO_HEAD)


def net_scores(
    words: np.ndarray, root: np.ndarray, weights: dict[str, np.ndarray], has_distances: bool
) -> np.ndarray:
    """A hidden layer over two words' vectors, with the features of the distance, ROOT last."""
    n = len(words)
    scores = np.full((n, n + 1), -np.inf)
    for i in range(n):
        for j in range(n + 1):
            if i == j:
                continue
            hidden = words[i] @ weights["dependent"] + weights["bias"]
            hidden = hidden + (root if j == n else words[j]) @ weights["candidate"]
            if has_distances:
                features = np.zeros(9)
                if j == n:
                    features[8] = 1
                else:
                    side, far = (0, i - j) if j < i else (4, j - i)
                    features[side + 3] = log(far)
                    if far <= 3:
                        features[side + far - 1] = 1
                hidden = hidden + features @ weights["distance"]
            scores[i, j] = np.maximum(hidden, 0) @ weights["out"]
    return scores


def label_loss(
    features: np.ndarray, gold: Sequence[int], weights: np.ndarray, penalty: float
) -> float:
    loss = penalty / 2 * float((weights**2).sum())
    for feature, relation in zip(features, gold, strict=True):
        grades = [exp(float(feature @ column)) for column in weights.T]
        loss -= log(grades[relation] / sum(grades)) / len(gold)
    return loss
