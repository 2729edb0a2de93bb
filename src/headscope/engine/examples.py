"""The examples where notable heads do best and worst.

They are found while a corpus streams, and viewed again here. Of a long example a window is drawn:
its maps are read slice by slice, and only the window is kept.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.contracts import AttentionSource, CorpusRole
from headscope.data.attention import LayerAttention
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.head_view import SHEET, ShownExample
from headscope.data.reading import MapSlice, Reading, RowReading
from headscope.data.table import Tables
from headscope.engine.finish import NotableHead, choose_sheet_heads, find_notable_heads
from headscope.engine.head_views import encode_whole, find_sides, kind_of, make_view, run_heads
from headscope.engine.measure import Progress
from headscope.engine.passes import Pass
from headscope.engine.sample import Sample
from headscope.engine.windows import cut_documents, encode_windows
from headscope.lazy import Tensor, torch
from headscope.models.encode import equal_length_batches
from headscope.runs.tables import CORPUS_COLUMNS, rows_of_pass
from headscope.stats.ranking import ENDS, MOST, Ranking

__all__ = ["gather_examples", "merge_examples", "read_again"]

DRAWN_UNITS = 30
SHEET_WORDS, SHEET_UNITS = 12, 20  # of the sentence of a sheet: wanted, and at most drawn
READ_AT_ONCE = 64
BATCH_TOKENS = 2048  # that the model reads together
LONG = 512  # tokens; of longer examples a window of so many is read
SLICE_ROWS = 128


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
    encodings = encode_whole(source, list(examples.values()), max_tokens)
    progress = start_bar(len(encodings))
    results: list[tuple[Request, ShownExample]] = []
    with source.prepared():
        for members in equal_length_batches(encodings, BATCH_TOKENS):
            results += _show(source, members, requests)
            progress(len(members))
        sentence = _choose_sentence(sample, pass_.role)
        sheet = _draw_sheet(source, sentence, max_tokens, tables) if sentence else []
    results.sort(key=lambda pair: (pair[0].number, pair[0].end, pair[0].rank))
    return [*[shown for _, shown in results], *sheet]


def _choose_sentence(sample: Sample, role: CorpusRole) -> Example | None:
    """A sentence of handy length near the start of a corpus: the same one for every model."""
    if role is CorpusRole.COREF:  # documents
        return None

    def distance(example: Example) -> int:
        words = example.words or (example.text or "").split()
        return abs(len(words) - SHEET_WORDS)

    return min(islice(sample, READ_AT_ONCE), key=distance, default=None)


def _draw_sheet(
    source: AttentionSource, sentence: Example, max_tokens: int, tables: Tables
) -> list[ShownExample]:
    """Heads with different patterns on one sentence."""
    heads = [head for head in choose_sheet_heads(tables) if head.layer in source.layer_numbers]
    [encoding] = encode_whole(source, [sentence], max_tokens)
    if not heads:
        return []
    kind = kind_of(source)
    [encoding], maps = _read_maps(source, [encoding], {(0, h.layer, h.head) for h in heads})
    rows, keys = find_sides(encoding, kind)
    shown = []
    for head in heads:
        place = head.layer, head.head
        view = make_view(rows, place, maps[0, *place], False, (), keys=keys)
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
        (position, request)
        for position, encoding in enumerate(encodings)
        for request in requests[encoding.example.key]
    ]
    heads = {(position, r.head.layer, r.head.head) for position, r in wanted}
    kind = kind_of(source)
    encodings, maps = _read_maps(source, encodings, heads)
    for position, request in wanted:
        head, encoding = request.head, encodings[position]
        is_of_words = head.pairs is not None
        pairs = head.pairs(request.analysis, encoding.example) if head.pairs else []
        weights = maps[position, head.layer, head.head]
        rows, keys = find_sides(encoding, kind)
        view = make_view(rows, (head.layer, head.head), weights, is_of_words, pairs, keys=keys)
        n_right = round((request.score + len(view.marked)) / 2)
        says = f"{n_right} of {len(view.marked)} found" if is_of_words else f"{request.score:.0%}"
        short = replace(view, kind=kind or "").excerpt(DRAWN_UNITS)
        yield request, ShownExample(head.title, request.end, request.score, says, short)


# Maps of examples, or of windows of long ones.

Maps = Mapping[tuple[int, int, int], NDArray[np.floating[Any]]]  # by example, layer and head


class RowMaxima(RowReading):
    """The largest weight of each row."""

    def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
        return weights.amax(-1)


MAXIMA = RowMaxima()


@dataclass(frozen=True)
class MapWindow(Reading):
    """The part of each map between two tokens."""

    start: int
    stop: int

    def begin(self, layer: LayerAttention) -> Tensor:
        size = self.stop - self.start
        return torch.zeros(*layer.weights.shape[:2], size, size, device=layer.batch.device)

    def add(self, total: Tensor, part: MapSlice) -> None:
        first, last = max(self.start, part.rows.start), min(self.stop, part.rows.stop)
        if first >= last:
            return
        weights = part.weights[..., first - part.first_row : last - part.first_row, :]
        kept = weights[..., self.start : self.stop]
        rows = slice(first - self.start, last - self.start)
        total[part.examples, :, rows, : kept.shape[-1]] = kept


def _read_maps(
    source: AttentionSource, encodings: Sequence[Encoding], heads: Collection[tuple[int, int, int]]
) -> tuple[list[Encoding], Maps]:
    """The maps of these heads (example, layer, head); long examples are cut to a window of tokens
    around the strongest row of their first head."""
    if len(encodings[0]) <= LONG or kind_of(source) is not None:
        return list(encodings), run_heads(source, encodings, heads)
    windows, maps = list[Encoding](), dict[tuple[int, int, int], NDArray[np.floating[Any]]]()
    for position, encoding in enumerate(encodings):
        first = min((layer, head) for example, layer, head in heads if example == position)
        start = _find_start(source, encoding, first)
        windows.append(_cut(encoding, slice(start, start + LONG)))
        reading = MapWindow(start, start + LONG)

        def keep(
            seen: LayerAttention, position: int = position, reading: Reading = reading
        ) -> None:
            for example, layer, head in heads:
                if example == position and layer == source.layer_numbers[seen.layer]:
                    weights = seen.read(reading)[0, head]
                    maps[position, layer, head] = weights.double().cpu().numpy()

        source.read(source.batch([encoding]), (reading,), SLICE_ROWS, keep)
    return windows, maps


def _find_start(source: AttentionSource, encoding: Encoding, head: tuple[int, int]) -> int:
    """Where the window begins that has the strongest row of text of a head in its middle."""
    is_text = torch.from_numpy(encoding.kinds == TokenKind.TEXT)
    strongest: list[int] = []

    def find(seen: LayerAttention) -> None:
        if source.layer_numbers[seen.layer] == head[0]:
            maxima = seen.read(MAXIMA)[0, head[1]].cpu()
            strongest.append(int(maxima.where(is_text, 0).argmax()))

    source.read(source.batch([encoding]), (MAXIMA,), SLICE_ROWS, find)
    return max(0, min(strongest[0] - LONG // 2, len(encoding) - LONG))


def _cut(encoding: Encoding, window: slice) -> Encoding:
    return replace(
        encoding,
        inputs={name: values[window] for name, values in encoding.inputs.items()},
        surfaces=encoding.surfaces[window],
        kinds=encoding.kinds[window],
        word_ids=encoding.word_ids[window],
    )
