"""The examples where notable heads do best and worst: found while streaming, viewed again here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from headscope.contracts import AttentionSource, CorpusRole
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Encoding
from headscope.data.example import Example, stable_hash
from headscope.data.head_view import ShownExample
from headscope.data.table import Tables
from headscope.engine.finish import NotableHead, find_notable_heads
from headscope.engine.head_views import encode_whole, find_sides, kind_of, make_view, run_heads
from headscope.engine.measure import Progress
from headscope.engine.plan import Pass
from headscope.engine.sample import Sample
from headscope.engine.windows import cut_windows
from headscope.models.encode import equal_length_batches
from headscope.runs.tables import CORPUS_COLUMNS, rows_of_pass
from headscope.stats.ranking import ENDS, MOST, Ranking

__all__ = ["gather_examples", "merge_examples", "read_again"]

DRAWN_UNITS = 30
READ_AT_ONCE = 64
BATCH_TOKENS = 2048  # that the model reads together


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
    examples: dict[int, Example] = {}  # those that are shown, by the hash of their id
    is_cut, max_tokens = pass_.cut == "truncate", pass_.max_tokens
    for example in read_again(sample, pass_.role, is_cut, source, max_tokens, requests):
        if (key := stable_hash(example.id)) in requests:
            examples[key] = example
        if len(examples) == len(requests):
            break
    encodings = encode_whole(source, list(examples.values()), max_tokens)
    progress = start_bar(len(encodings))
    results: list[tuple[Request, ShownExample]] = []
    with source.prepared():
        for members in equal_length_batches(encodings, BATCH_TOKENS):
            results += _show(source, members, requests)
            progress(len(members))
    results.sort(key=lambda pair: (pair[0].number, pair[0].end, pair[0].rank))
    return [shown for _, shown in results]


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
    """The examples that have these keys; all documents, in the same windows."""
    if role is not CorpusRole.COREF:
        yield from sample.find(keys)
        return
    examples = iter(sample)
    while some := list(islice(examples, READ_AT_ONCE)):
        yield from cut_windows(some, source, max_tokens, ExampleCounts(), is_truncated)


def _show(
    source: AttentionSource, encodings: Sequence[Encoding], requests: Mapping[int, list[Request]]
) -> Iterator[tuple[Request, ShownExample]]:
    wanted = [
        (position, encoding, request)
        for position, encoding in enumerate(encodings)
        for request in requests[stable_hash(encoding.example.id)]
    ]
    heads = {(position, r.head.layer, r.head.head) for position, _, r in wanted}
    maps, kind = run_heads(source, encodings, heads), kind_of(source)
    for position, encoding, request in wanted:
        head = request.head
        is_of_words = head.pairs is not None
        pairs = head.pairs(request.analysis, encoding.example) if head.pairs else []
        weights = maps[position, head.layer, head.head]
        rows, keys = find_sides(encoding, kind)
        view = make_view(rows, (head.layer, head.head), weights, is_of_words, pairs, keys=keys)
        n_right = round((request.score + len(view.marked)) / 2)
        says = f"{n_right} of {len(view.marked)} found" if is_of_words else f"{request.score:.0%}"
        short = replace(view, kind=kind or "").excerpt(DRAWN_UNITS)
        yield request, ShownExample(head.title, request.end, request.score, says, short)
