"""What chosen heads do with an example; and the examples where notable heads do best and worst.

These are found while a corpus streams by, and viewed again here.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.contracts import AttentionKind, AttentionSource, CorpusRole
from headscope.data.attention import LayerAttention, head_name
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import ROOT, Example
from headscope.data.head_view import SHEET, HeadView, ShownExample
from headscope.data.table import Tables
from headscope.engine.finish import NotableHead, choose_sheet_heads, find_notable_heads
from headscope.engine.measure import Progress, refuse_not_finite
from headscope.engine.plan import Pass
from headscope.engine.sample import Sample
from headscope.engine.windows import cut_documents, encode_windows
from headscope.errors import StudyError, suggest
from headscope.models.encode import equal_length_batches
from headscope.models.seq2seq import OneKind
from headscope.runs.tables import CORPUS_COLUMNS, rows_of_pass
from headscope.stats.ranking import ENDS, MOST, Ranking

__all__ = [
    "DIRECTIONS", "all_heads", "gather_examples", "merge_examples", "name_layers", "read_again",
    "refuse_absent_heads", "view_heads",
]  # fmt: skip

DRAWN_UNITS = 30
SHEET_TOKENS, SHEET_UNITS = 14, 20  # of the sentence of a sheet: wanted, and at most
READ_AT_ONCE = 64
BATCH_TOKENS = 2048  # that the model reads together
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
    (encoding,) = _encode_whole(source, [example], max_tokens)
    maps = _run_heads(source, [encoding], [(0, *head) for head in heads])
    rows, keys = _find_sides(encoding, _kind_of(source))
    return [
        _make_view(rows, head, maps[0, *head], by_words, arcs, later_piece, keys) for head in heads
    ]


def _kind_of(source: AttentionSource) -> AttentionKind | None:
    """Which attention of an encoder-decoder a source shows; None of other models."""
    return source.kind if isinstance(source, OneKind) else None


def _find_sides(encoding: Encoding, kind: AttentionKind | None) -> tuple[Encoding, Encoding | None]:
    """The tokens that attend, and those attended to where they are others."""
    if kind in (None, AttentionKind.ENCODER) or encoding.target is None:
        return encoding, None
    return encoding.target, encoding if kind is AttentionKind.CROSS else None


def _make_view(
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


def _encode_whole(
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


def _run_heads(
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


@dataclass(frozen=True)
class Request:
    """An example that is to be shown, and what for."""

    head: NotableHead
    number: int  # of the notable head
    analysis: Any
    end: str
    rank: int  # 0 is the best of the best, or the worst of the worst
    score: float


def gather_examples(
    source: AttentionSource,
    pass_: Pass,
    sample: Sample,
    rankings: Mapping[str, Ranking],
    tables: Tables,
    start_bar: Callable[[int], Progress] = lambda n_examples: lambda n_done: None,
) -> list[ShownExample]:
    """The notable heads of a pass at their best and worst examples, which are read again.

    Of an encoder-decoder, `source` is one kind of its attention.
    """
    requests = _request(pass_, rankings, tables, source.layer_numbers)
    if not requests:
        return []
    examples: dict[int, Example] = {}  # those that are shown, by their keys
    is_cut, max_tokens = pass_.cut == "truncate", pass_.max_tokens
    for example in read_again(sample, pass_.role, is_cut, source, max_tokens, requests):
        if example.key in requests:
            examples[example.key] = example
        if len(examples) == len(requests):
            break
    encodings = _encode_whole(source, list(examples.values()), max_tokens)
    progress = start_bar(len(encodings))
    results: list[tuple[Request, ShownExample]] = []
    with source.prepared():
        for members in equal_length_batches(encodings, BATCH_TOKENS):
            results += _show(source, members, requests)
            progress(len(members))
        sheet = _draw_sheet(source, encodings, tables)
    results.sort(key=lambda pair: (pair[0].number, pair[0].end, pair[0].rank))
    return [*[shown for _, shown in results], *sheet]


def _draw_sheet(
    source: AttentionSource, encodings: Sequence[Encoding], tables: Tables
) -> list[ShownExample]:
    """Heads with different patterns on one sentence, of those that are shown the handiest."""
    heads = [head for head in choose_sheet_heads(tables) if head.layer in source.layer_numbers]
    encoding = min(encodings, key=lambda encoding: abs(len(encoding) - SHEET_TOKENS))
    maps, kind = (
        _run_heads(source, [encoding], {(0, h.layer, h.head) for h in heads}),
        _kind_of(source),
    )
    rows, keys = _find_sides(encoding, kind)
    shown = []
    for head in heads:
        place = head.layer, head.head
        view = _make_view(rows, place, maps[0, *place], False, (), keys=keys)
        short = replace(view, kind=kind or "").excerpt(SHEET_UNITS)
        shown.append(ShownExample(head.title, SHEET, 0.0, "", short))
    return shown


def merge_examples(parts: Sequence[Sequence[ShownExample]]) -> list[ShownExample]:
    """Of the examples that several runs kept for the same head and title, the most telling."""
    groups: dict[tuple[Any, ...], list[ShownExample]] = {}
    for shown in (shown for part in parts for shown in part):
        key = (shown.title, shown.view.kind, shown.view.layer, shown.view.head, shown.end)
        groups.setdefault(key, []).append(shown)
    merged: list[ShownExample] = []
    for (*_, end), group in groups.items():
        merged += sorted(group, key=lambda shown: shown.score, reverse=end == ENDS[0])[:MOST]
    return merged


def _request(
    pass_: Pass, rankings: Mapping[str, Ranking], tables: Tables, numbers: Sequence[int]
) -> dict[int, list[Request]]:
    """By the hash of an example's id, what it is to be shown for.

    `numbers` are those of the layers in the rankings, which hold them without gaps.
    """
    requests: dict[int, list[Request]] = {}
    number = 0
    for analysis in pass_.analyses:
        of_analysis = {name: tables[name] for name in analysis.tables if name in tables}
        corpus = pass_.corpus.name
        is_of_several = any({*CORPUS_COLUMNS} & {*table} for table in of_analysis.values())
        suffix = f" ({corpus})" if is_of_several else ""
        rows = {
            name: rows_of_pass(table, corpus, pass_.window, pass_.cut)
            for name, table in of_analysis.items()
        }
        ranking = rankings.get(analysis.name, Ranking())
        for head in find_notable_heads(analysis.name, rows):
            titled = replace(head, title=head.title + suffix)
            chosen: set[int] = set()
            position = (numbers.index(head.layer), head.head, *head.more)
            for end in ENDS:  # in a small corpus the best may be among the worst: once is enough
                for rank, (key, score) in enumerate(ranking.find(head.ranking, end, position)):
                    if key not in chosen:
                        request = Request(titled, number, analysis, end, rank, score)
                        requests.setdefault(key, []).append(request)
                    chosen.add(key)
            number += 1
    return requests


def read_again(
    sample: Sample,
    role: CorpusRole,
    is_truncated: bool,
    source: AttentionSource,
    max_tokens: int,
    keys: Collection[int],
) -> Iterator[Example]:
    """The examples that have these keys, and all windows of such texts; of documents, those of
    all."""
    if role is not CorpusRole.COREF:
        for example in sample.find(keys):
            yield example
            if role is CorpusRole.TEXT:
                windows = encode_windows([example], source, role, max_tokens, ExampleCounts())
                yield from (window.example for window in windows)
        return
    examples = iter(sample)
    while some := list(islice(examples, READ_AT_ONCE)):
        yield from cut_documents(some, source, max_tokens, ExampleCounts(), is_truncated)


def _show(
    source: AttentionSource, encodings: Sequence[Encoding], requests: Mapping[int, list[Request]]
) -> Iterator[tuple[Request, ShownExample]]:
    wanted = [
        (position, encoding, request)
        for position, encoding in enumerate(encodings)
        for request in requests[encoding.example.key]
    ]
    heads = {(position, r.head.layer, r.head.head) for position, _, r in wanted}
    maps, kind = _run_heads(source, encodings, heads), _kind_of(source)
    for position, encoding, request in wanted:
        head = request.head
        is_of_words = head.pairs is not None
        pairs = head.pairs(request.analysis, encoding.example) if head.pairs else []
        weights = maps[position, head.layer, head.head]
        rows, keys = _find_sides(encoding, kind)
        view = _make_view(rows, (head.layer, head.head), weights, is_of_words, pairs, keys=keys)
        n_right = round((request.score + len(view.marked)) / 2)
        says = f"{n_right} of {len(view.marked)} found" if is_of_words else f"{request.score:.0%}"
        short = replace(view, kind=kind or "").excerpt(DRAWN_UNITS)
        yield request, ShownExample(head.title, request.end, request.score, says, short)
