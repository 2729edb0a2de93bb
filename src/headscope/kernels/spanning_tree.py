"""Maximum spanning trees of small dense graphs, many at a time.

Sentences are short and there are very many (heads x sentences), so the cost of a general library
is its overhead per call; these two compiled loops have none. Ties go to the lowest index.
"""

from typing import Any

import numba
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.kernels import njit

__all__ = ["best_trees", "count_arcs", "maximum_arborescence", "maximum_spanning_tree"]

NO_NODE = -1
NEW, ON_PATH, DONE = 0, 1, 2
ONE_ROOT = 1e6  # the cost of a child of ROOT: more than any word could gain by being one

compiled = njit(nogil=True)


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
    outside = np.arange(1, n)  # in this order; the first `n_left` of them
    newest = 0
    for n_left in range(n - 1, 0, -1):
        best = 0
        for place in range(n_left):
            node = outside[place]
            score = scores[newest, node] + scores[node, newest]
            if score > highest[node]:
                highest[node], partner[node] = score, newest
            if highest[node] > highest[outside[best]]:
                best = place
        newest = outside[best]
        for place in range(best, n_left - 1):
            outside[place] = outside[place + 1]
    return partner


@compiled
def maximum_arborescence(
    scores: Float[NDArray[np.float64], "dependent head"], root: int
) -> Int[NDArray[np.int64], " node"]:
    """Each node's head in the directed tree of highest total score from `root` (whose head is -1).

    Chu-Liu and Edmonds, on paths as Tarjan: each word takes its best head, the head its own, and
    so on to the root. Where that is a cycle, its words become one component, in the row of one of
    them: each head is worth what entering there gains over the edge that it gives up.
    """
    n = len(scores)
    gain = scores.copy()  # [row, head]
    entry = np.empty((n, n), np.int32)  # [row, head]: the word at which the head enters
    component = np.arange(n)  # the row of each word's component
    node = np.arange(n)  # of each row: a word or, from n, a cycle
    state = np.full(n, NEW)  # of each row
    path = np.empty(n, np.int64)  # rows, each of which hangs on the next
    inside = np.full(2 * n, NO_NODE)  # the cycle that a node is part of
    dependent, chosen = np.full(2 * n, NO_NODE), np.full(2 * n, NO_NODE)  # the edge into a node
    for word in range(n):
        entry[word] = word
    state[root] = DONE
    n_nodes = n
    for start in range(n):
        row, length = component[start], 0
        while state[row] != DONE:
            if state[row] == NEW:
                state[row], path[length] = ON_PATH, row
                length += 1
                head = _best_head(gain, component, row)
                dependent[node[row]], chosen[node[row]] = entry[row, head], head
                row = component[head]
                continue
            first = length - 1  # the path comes back to `row`: a cycle
            while path[first] != row:
                first -= 1
            for place in range(first, length):
                member = path[place]
                inside[node[member]] = n_nodes
                _join(gain, entry, component, row, member, gain[member, chosen[node[member]]])
            node[row], state[row], length = n_nodes, NEW, first
            n_nodes += 1
        for place in range(length):
            state[path[place]] = DONE
    return _expand(inside, dependent, chosen, n, n_nodes)


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
def _best_head(gain, component, row):  # type: ignore[no-untyped-def]
    """The head outside the component that gains most."""
    best = NO_NODE
    for head in range(len(component)):
        is_better = best == NO_NODE or gain[row, head] > gain[row, best]
        if is_better and component[head] != row:
            best = head
    return best


@compiled
def _join(gain, entry, component, row, member, given_up):  # type: ignore[no-untyped-def]
    """Make a member of a cycle part of the component in `row`, whose own edges come first."""
    for head in range(len(component)):
        if member == row:
            gain[row, head] -= given_up
        elif gain[member, head] - given_up > gain[row, head]:
            gain[row, head], entry[row, head] = gain[member, head] - given_up, entry[member, head]
        if component[head] == member:
            component[head] = row


@compiled
def _expand(inside, dependent, chosen, n, n_nodes):  # type: ignore[no-untyped-def]
    """Undo the cycles: in each, the node that is entered from outside changes head."""
    for cycle in range(n_nodes - 1, n - 1, -1):
        entered = dependent[cycle]
        while inside[entered] != cycle:
            entered = inside[entered]
        dependent[entered], chosen[entered] = dependent[cycle], chosen[cycle]
    return chosen[:n]


@njit(parallel=True)
def count_arcs(
    weights: Float[NDArray[Any], "example head word other"],
    places: Int[NDArray[np.int64], "example place"],
    gold: Int[NDArray[np.int64], "example place"],
    is_scored: Bool[NDArray[np.bool_], "example place"],
) -> Float[NDArray[np.float64], "example head score"]:
    """Arcs found by each kind of tree: undirected, by row, by column.

    Places are the words that take part, padded with -1.

    `gold[place]` is the place of a word's head, -1 for the root of the tree, less where the head
    takes no part; directed trees hang on the gold root, as attention has none of its own.
    """
    n_examples, n_heads = weights.shape[:2]
    found = np.zeros((n_examples, n_heads, 3))
    for task in numba.prange(n_examples * n_heads):
        example, head = task // n_heads, task % n_heads
        n = (places[example] >= 0).sum()
        if n < 2:
            continue
        scores = np.empty((n, n))
        root = 0
        for a in range(n):
            if gold[example, a] == -1:
                root = a
            for b in range(n):
                scores[a, b] = weights[example, head, places[example, a], places[example, b]]
        partner = maximum_spanning_tree(scores)
        by_row = maximum_arborescence(scores, root)
        by_column = maximum_arborescence(scores.T.copy(), root)
        for a in range(n):
            if is_scored[example, a]:
                b = gold[example, a]
                found[example, head, 0] += partner[a] == b or partner[b] == a
                found[example, head, 1] += by_row[a] == b
                found[example, head, 2] += by_column[a] == b
    return found
