"""Spanning trees over word attention, by a general graph library, arc by arc."""

from collections.abc import Sequence
from typing import Any

import networkx as nx

from headscope.data.encoding import Encoding
from tests.references.dependency import word_map
from tests.references.measures import Maps, Rows, heads


def scored_arcs(encoding: Encoding) -> list[tuple[int, int]]:
    """Gold (dependent, head) pairs between words with tokens, punctuation left out."""
    tree = encoding.example.tree
    assert tree is not None
    present = {int(w) for w in encoding.word_ids if w >= 0}
    if tree.heads.index(-1) not in present:
        return []
    return [
        (word, head)
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
        if word in present and head in present and relation != "punct"
    ]


def undirected(words: list[list[float]], present: list[int]) -> set[frozenset[int]]:
    graph = nx.Graph()
    for a in present:
        for b in present:
            if a < b:
                graph.add_edge(a, b, weight=words[a][b] + words[b][a])
    return {frozenset(edge) for edge in nx.maximum_spanning_tree(graph).edges}


def directed(words: list[list[float]], present: list[int], root: int) -> set[tuple[int, int]]:
    """(dependent, head) pairs of the best tree from the root; `words[dependent][head]` scores."""
    graph = nx.DiGraph()
    for dependent in present:
        for head in present:
            if dependent not in (head, root):
                graph.add_edge(head, dependent, weight=words[dependent][head])
    tree = nx.maximum_spanning_arborescence(graph)
    return {(dependent, head) for head, dependent in tree.edges}


def find_arcs(words: list[list[float]], encoding: Encoding) -> dict[str, int]:
    gold, tree = scored_arcs(encoding), encoding.example.tree
    assert tree is not None
    present = sorted({int(w) for w in encoding.word_ids if w >= 0})
    if not gold:
        return {"undirected": 0, "dependent-to-head": 0, "head-to-dependent": 0}
    root = tree.heads.index(-1)
    turned = [list(column) for column in zip(*words, strict=True)]
    edges = undirected(words, present)
    by_row, by_column = directed(words, present, root), directed(turned, present, root)
    return {
        "undirected": sum(frozenset(arc) in edges for arc in gold),
        "dependent-to-head": sum(arc in by_row for arc in gold),
        "head-to-dependent": sum(arc in by_column for arc in gold),
    }


def baselines(encodings: Sequence[Encoding]) -> Rows:
    n_arcs, chain, right = 0, 0, 0
    for encoding in encodings:
        present = sorted({int(w) for w in encoding.word_ids if w >= 0})
        for dependent, head in scored_arcs(encoding):
            step = present.index(head) - present.index(dependent)
            n_arcs, chain, right = n_arcs + 1, chain + (abs(step) == 1), right + (step == 1)
    return {
        ("adjacent chain", None, None, "undirected"): chain / n_arcs,
        ("right-branching", None, None, "dependent-to-head"): right / n_arcs,
    }


def trees(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    n_arcs = sum(len(scored_arcs(encoding)) for encoding in encodings)
    rows: dict[tuple[Any, ...], float] = {}
    for layer, head in heads(maps):
        for example, encoding in zip(maps, encodings, strict=True):
            words = word_map(example[layer][head], encoding)
            for tree, found in find_arcs(words, encoding).items():
                key = ("head", layer + 1, head + 1, tree)
                rows[key] = rows.get(key, 0) + found / n_arcs
    return rows | baselines(encodings)
