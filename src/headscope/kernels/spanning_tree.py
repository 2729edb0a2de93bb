"""Maximum spanning trees of small dense graphs, many at a time.

Sentences are short and there are very many (heads x sentences), so the cost of a general library
is its overhead per call; these two compiled loops have none. Ties go to the lowest index.
"""

import numba
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

__all__ = ["best_trees", "maximum_arborescence", "maximum_spanning_tree"]

NO_NODE = -1
ONE_ROOT = 1e6  # the cost of a child of ROOT: more than any word could gain by being one

compiled = numba.njit(cache=True, nogil=True)


@compiled
def maximum_spanning_tree(
    scores: Float[NDArray[np.float64], "node other"],
) -> Int[NDArray[np.int64], " node"]:
    """Each node's partner in the undirected tree of highest total score, grown from node 0.

    The score of an edge is `scores[a, b] + scores[b, a]`; node 0 has no partner (-1).
    """
    n = len(scores)
    partner = np.full(n, NO_NODE)
    highest = np.full(n, -np.inf)  # the best edge from the tree to each node outside it
    is_in = np.zeros(n, np.bool_)
    newest = 0
    is_in[0] = True
    for _ in range(n - 1):
        following = NO_NODE
        for node in range(n):
            if is_in[node]:
                continue
            score = scores[newest, node] + scores[node, newest]
            if score > highest[node]:
                highest[node], partner[node] = score, newest
            if following == NO_NODE or highest[node] > highest[following]:
                following = node
        is_in[following] = True
        newest = following
    return partner


@compiled
def maximum_arborescence(
    scores: Float[NDArray[np.float64], "dependent head"], root: int
) -> Int[NDArray[np.int64], " node"]:
    """Each node's head in the directed tree of highest total score from `root` (whose head is -1).

    Chu-Liu and Edmonds: every node takes its best head; while there is a cycle, it is contracted
    into a new node whose incoming edges cost what entering the cycle there would give up.
    """
    n = len(scores)
    size = 2 * n  # every contraction makes one node of at least two
    weight = np.empty((size, size))  # [dependent, head], between nodes that were made
    edge = np.empty((size, size), np.int64)  # behind it: dependent * n + head in the sentence
    for dependent in range(n):
        for head in range(n):
            weight[dependent, head] = scores[dependent, head]
            edge[dependent, head] = dependent * n + head
    is_live = np.arange(size) < n
    inside = np.full(size, NO_NODE)  # the contracted node that a node is part of
    chosen = np.full(size, NO_NODE)
    for node in range(n):
        if node != root:
            chosen[node] = _best_head(weight, is_live, n, node)
    n_nodes = n
    while True:
        in_cycle = _find_cycle(chosen, is_live, n_nodes)
        if not in_cycle.any():
            break
        new = n_nodes
        _contract(weight, edge, is_live, in_cycle, chosen, new)
        n_nodes += 1
        is_live[new] = True
        for node in range(new):
            if in_cycle[node]:
                is_live[node], inside[node] = False, new
            elif is_live[node] and node != root and in_cycle[chosen[node]]:
                chosen[node] = new  # its best head is in there still
        chosen[new] = _best_head(weight, is_live, n_nodes, new)
    return _expand(edge, inside, chosen, n, n_nodes)


@compiled
def best_trees(
    scores: Float[NDArray[np.float64], "tree word candidate"],
    sizes: Int[NDArray[np.int64], " tree"],
) -> Int[NDArray[np.int64], "tree word"]:
    """The heads of the best trees with exactly one child of ROOT, the last candidate (as head -1);
    trees of fewer words than the longest are padded."""
    heads = np.full(scores.shape[:2], NO_NODE)
    for tree, n in enumerate(sizes):
        square = np.full((n + 1, n + 1), -ONE_ROOT)
        square[:n, :n] = scores[tree, :n, :n]
        square[:n, n] = scores[tree, :n, -1] - ONE_ROOT
        found = maximum_arborescence(square, n)[:n]
        heads[tree, :n] = np.where(found == n, NO_NODE, found)
    return heads


@compiled
def _best_head(weight, is_live, n_nodes, node):  # type: ignore[no-untyped-def]
    best = NO_NODE
    for head in range(n_nodes):
        is_better = best == NO_NODE or weight[node, head] > weight[node, best]
        if head != node and is_live[head] and is_better:
            best = head
    return best


@compiled
def _find_cycle(chosen, is_live, n_nodes):  # type: ignore[no-untyped-def]
    """The nodes of one cycle of chosen heads, or none."""
    in_cycle = np.zeros(len(chosen), np.bool_)
    seen_from = np.full(len(chosen), NO_NODE)
    for start in range(n_nodes):
        node = start
        while node != NO_NODE and is_live[node] and seen_from[node] == NO_NODE:
            seen_from[node] = start
            node = chosen[node]
        if node != NO_NODE and is_live[node] and seen_from[node] == start:
            while not in_cycle[node]:
                in_cycle[node] = True
                node = chosen[node]
            return in_cycle
    return in_cycle


@compiled
def _contract(weight, edge, is_live, in_cycle, chosen, new):  # type: ignore[no-untyped-def]
    """Edges of the new node: the best into and out of the cycle, for every live node outside."""
    weight[new, :new], weight[:new, new] = -np.inf, -np.inf
    for inner in range(new):
        if not in_cycle[inner]:
            continue
        for outer in range(new):
            if not is_live[outer] or in_cycle[outer]:
                continue
            entering = weight[inner, outer] - weight[inner, chosen[inner]]
            if entering > weight[new, outer]:
                weight[new, outer], edge[new, outer] = entering, edge[inner, outer]
            if weight[outer, inner] > weight[outer, new]:
                weight[outer, new], edge[outer, new] = weight[outer, inner], edge[outer, inner]


@compiled
def _expand(edge, inside, chosen, n, n_nodes):  # type: ignore[no-untyped-def]
    """Undo the contractions: in each cycle, the node that is entered from outside changes head."""
    final_dependent, final_head = np.full(n_nodes, NO_NODE), np.full(n_nodes, NO_NODE)
    for node in range(n_nodes):
        if chosen[node] != NO_NODE:
            final_dependent[node] = edge[node, chosen[node]] // n
            final_head[node] = edge[node, chosen[node]] % n
    for cycle in range(n_nodes - 1, n - 1, -1):
        entered = final_dependent[cycle]
        while inside[entered] != cycle:
            entered = inside[entered]
        final_dependent[entered], final_head[entered] = final_dependent[cycle], final_head[cycle]
    return final_head[:n]
