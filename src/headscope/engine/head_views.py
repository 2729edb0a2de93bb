"""What chosen heads do with an example: the values that are drawn."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.contracts import AttentionKind, AttentionSource
from headscope.data.attention import LayerAttention, head_name
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import ROOT, Example
from headscope.data.head_view import HeadView
from headscope.engine.measure import refuse_not_finite
from headscope.errors import StudyError, suggest
from headscope.models.seq2seq import OneKind

__all__ = [
    "DIRECTIONS", "all_heads", "encode_whole", "find_sides", "kind_of", "make_view", "name_layers",
    "refuse_absent_heads", "run_heads", "view_heads",
]  # fmt: skip

DIRECTIONS = ("dependent-to-head", "head-to-dependent")
NO_LIMIT = 10**9  # tokens: the text is cut nowhere, so that its real length can be said

Maps = Float[NDArray[np.floating[Any]], "query key"]


def view_heads(
    source: AttentionSource,
    example: Example,
    heads: Collection[tuple[int, int]],
    by_words: bool = False,
    *,
    relation: str | None = None,
    direction: str = "dependent-to-head",
    arcs: Collection[tuple[int, int]] | None = None,
    max_tokens: int | None = None,
    later_piece: str = "",
) -> list[HeadView]:
    """What each of these heads (layer, head; counted from 0) does with the example, in their order.

    Layers are the model's own: a hybrid has others between those with attention.

    `by_words` gives attention between words: the sum over the pieces attended to, the mean over
    the pieces that attend; special tokens stay units of their own, so rows still sum to 1. The
    arcs of a tree are marked, those of one `relation` alone if it is given; or the pairs of words
    (from, to) in `arcs`. With `max_tokens` a long text is cut, without it is an error. Tokens that
    continue a word begin with `later_piece`.
    """
    refuse_absent_heads(source, heads)
    if arcs is None:
        arcs = _gold_arcs(example, relation, direction)
    (encoding,) = encode_whole(source, [example], max_tokens)
    maps = run_heads(source, [encoding], [(0, *head) for head in heads])
    rows, keys = find_sides(encoding, kind_of(source))
    return [
        make_view(rows, head, maps[0, *head], by_words, arcs, later_piece, keys) for head in heads
    ]


def kind_of(source: AttentionSource) -> AttentionKind | None:
    """Which attention of an encoder-decoder a source shows; None of other models."""
    return source.kind if isinstance(source, OneKind) else None


def find_sides(encoding: Encoding, kind: AttentionKind | None) -> tuple[Encoding, Encoding | None]:
    """The tokens that attend, and those attended to where they are others."""
    if kind in (None, AttentionKind.ENCODER) or encoding.target is None:
        return encoding, None
    return encoding.target, encoding if kind is AttentionKind.CROSS else None


def make_view(
    encoding: Encoding,
    head: tuple[int, int],
    weights: Maps,
    by_words: bool,
    arcs: Collection[tuple[int, int]],
    later_piece: str = "",
    keys: Encoding | None = None,
) -> HeadView:
    """What a head does with an example, from its map between tokens; `arcs` are pairs of words."""
    owners = _find_units(encoding, by_words)
    units, is_special = _name_units(encoding, owners, by_words, later_piece)
    if keys is not None:  # of cross attention, between tokens
        others = _name_units(keys, np.arange(len(keys)), False, later_piece)
        return HeadView(encoding.example.id, *head, units, is_special, weights, (), *others)
    words = encoding.word_ids.tolist()
    first_unit = {w: int(owners[i]) for i, w in reversed([*enumerate(words)]) if w >= 0}
    marked = tuple(
        (first_unit[start], first_unit[end])
        for start, end in arcs
        if start in first_unit and end in first_unit
    )
    # Sums over the tokens of a unit attended to, means over those of a unit that attends.
    membership = (owners == np.arange(owners.max() + 1)[:, None]).astype(float)  # [unit, token]
    pooled = membership / membership.sum(-1, keepdims=True) @ weights @ membership.T
    return HeadView(encoding.example.id, *head, units, is_special, pooled, marked)


def all_heads(source: AttentionSource, layer: int | None = None) -> list[tuple[int, int]]:
    """Every head of the model, or of one of its layers, counted from 0."""
    layers = source.layer_numbers if layer is None else [layer]
    return [(number, head) for number in layers for head in range(source.n_heads)]


def refuse_absent_heads(source: AttentionSource, heads: Collection[tuple[int, int]]) -> None:
    """An error for a head that the model does not have."""
    numbers = source.layer_numbers
    for layer, head in heads:
        if layer not in numbers or not 0 <= head < source.n_heads:
            raise StudyError(
                f"{source.name} has no head {head_name(layer, head)}. Expected "
                f"{name_layers(numbers)} and heads 1 to {source.n_heads}; choose another of its "
                f"{source.n_layers} layers of {source.n_heads} heads."
            )


def name_layers(numbers: Sequence[int]) -> str:
    """Layers as people read them.

    >>> name_layers([0, 1, 2]), name_layers([3, 7])
    ('layers 1 to 3', 'layers 4, 8')
    """
    if list(numbers) == list(range(len(numbers))):
        return f"layers 1 to {len(numbers)}"
    return f"layers {', '.join(str(number + 1) for number in numbers)}"


def encode_whole(
    source: AttentionSource, examples: Sequence[Example], max_tokens: int | None
) -> list[Encoding]:
    """The examples in tokens; an error for one that the model cannot read."""
    encodings = source.encode(examples, max_tokens or NO_LIMIT)
    for example, encoding in zip(examples, encodings, strict=True):
        if len(encoding) > source.max_tokens:
            raise StudyError(
                f"{source.name} takes at most {source.max_tokens} tokens; {example.id} has "
                f"{len(encoding)}. Expected a shorter text; shorten it."
            )
        if not len(encoding):
            raise StudyError(
                f"The tokenizer of {source.name} returns no tokens for {example.id}. Expected text "
                f"that it knows; write words."
            )
    return encodings


def run_heads(
    source: AttentionSource,
    encodings: Sequence[Encoding],
    wanted: Collection[tuple[int, int, int]],
) -> dict[tuple[int, int, int], Maps]:
    """The maps of chosen heads alone, by (example, layer, head), for encodings of one length.

    A layer's other maps are let go while the model runs.
    """
    maps: dict[tuple[int, int, int], Maps] = {}
    numbers = source.layer_numbers

    def keep(attention: LayerAttention) -> None:
        for position, layer, head in wanted:
            if layer == numbers[attention.layer]:
                refuse_not_finite([(layer, attention.is_finite())], attention.batch)
                weights = attention.weights[position, head]
                maps[position, layer, head] = weights.detach().double().cpu().numpy()

    source.attend(source.batch(encodings), keep)
    return maps


def _find_units(encoding: Encoding, by_words: bool) -> NDArray[np.int64]:
    """The number of the unit each token is in: itself, or its word."""
    if not by_words:
        return np.arange(len(encoding))
    if encoding.example.words is None:
        raise StudyError(
            f"{encoding.example.id} is plain text, so its words are not known. Expected an example "
            "of words; give its words, or look at tokens."
        )
    names = [(w, 0) if w >= 0 else (-1, i) for i, w in enumerate(encoding.word_ids.tolist())]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names])


def _name_units(
    encoding: Encoding, owners: NDArray[np.int64], by_words: bool, later_piece: str
) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """What each unit is called, and whether it is a special token, by its first token."""
    _, firsts = np.unique(owners, return_index=True)
    words: Sequence[str] = encoding.example.words or ()
    names = tuple(
        words[encoding.word_ids[first]]
        if by_words and encoding.word_ids[first] >= 0
        else encoding.surfaces[first]
        for first in firsts
    )
    if later_piece and not by_words:
        later = zip(names, _find_later_pieces(encoding), strict=True)
        names = tuple(later_piece + name if is_later else name for name, is_later in later)
    return names, tuple(bool(encoding.kinds[first] != TokenKind.TEXT) for first in firsts)


def _find_later_pieces(encoding: Encoding) -> list[bool]:
    """Which tokens continue the word of the token before them."""
    words = encoding.word_ids.tolist()
    if max(words, default=-1) >= 0:
        return [w >= 0 and w == before for before, w in pairwise([-1, *words])]
    text, end, later = encoding.example.text or "", 0, []
    for surface, kind in zip(encoding.surfaces, encoding.kinds, strict=True):
        start = text.casefold().find(surface.casefold(), end) if kind == TokenKind.TEXT else -1
        is_joined = 0 < start == end and surface[:1].isalnum() and text[start - 1].isalnum()
        later.append(is_joined)
        end = start + len(surface) if start >= 0 else end
    return later


def _gold_arcs(example: Example, relation: str | None, direction: str) -> list[tuple[int, int]]:
    if direction not in DIRECTIONS:
        raise StudyError(
            f"No direction {direction!r}.{suggest(direction, DIRECTIONS)} Expected "
            f"{' or '.join(DIRECTIONS)}; choose one."
        )
    tree = example.tree
    heads, relations = (tree.heads, tree.relations) if tree else ((), ())
    words = [w for w, h in enumerate(heads) if h != ROOT and relation in (None, relations[w])]
    if relation is not None and not words:
        known = sorted(set(relations) - {"root"})
        has = f"one of its relations: {', '.join(known)}" if known else "a sentence with a tree"
        raise StudyError(
            f"{example.id} has no relation {relation!r}.{suggest(relation, known)} Expected {has}; "
            "choose another, or leave --relation out."
        )
    is_upward = direction == DIRECTIONS[0]
    return [(w, heads[w]) if is_upward else (heads[w], w) for w in words]
