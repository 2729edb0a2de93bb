"""The engine: encode, batch, observe, measure, add. Analyses know nothing of what is here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import (
    Analysis,
    AttentionKind,
    CorpusRole,
    Source,
    layer_numbers,
)
from headscope.data.attention import AttentionRows, choose_rows, spread_heads
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example, stable_hash
from headscope.data.reading import MapShape, MapSlice
from headscope.engine.windows import cut_windows
from headscope.errors import ModelError
from headscope.models.encode import equal_length_batches
from headscope.options import RunOptions
from headscope.runs.tables import tally_name
from headscope.stats.bucket import bucket_of
from headscope.stats.ranking import Ranking
from headscope.stats.tally import Tally

__all__ = [
    "ByKind", "Progress", "Result", "heads_a_layer", "keep_usable", "measure_examples",
    "refuse_not_finite",
]  # fmt: skip

WAITING_NUMBERS = 4_000_000  # 16 MB of values, before they are added up
ROW_NUMBERS = 128_000_000  # 512 MB of rows of all heads, before these are compared
ALL = 10**9  # tokens: no limit
SHARED = "word pieces that cover two words (counted for the word with the larger part)"
DRAWN_TOKENS = 30  # what a drawing shows with ease; longer examples come after all others

Values = dict[str, NDArray[np.floating[Any]]]  # name -> [example, layer, ...]
Measured = Mapping[str, Tensor | Callable[[], Tensor]]  # of one layer, by an analysis
Progress = Callable[[int], None]  # told how many examples are done
ByKind = Mapping[AttentionKind, Sequence[Analysis]]  # of an encoder-decoder that is measured whole


@dataclass
class Result:
    """What measuring some examples gave: a tally per analysis, counts, seconds by stage, of some
    analyses the examples that show heads best, and the hashes of the documents' names."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    counts: ExampleCounts = field(default_factory=ExampleCounts)
    seconds: dict[str, float] = field(default_factory=dict)
    rankings: dict[str, Ranking] = field(default_factory=dict)
    documents: set[int] = field(default_factory=set)

    def __add__(self, other: "Result") -> "Result":
        total = Result()
        total += self
        total += other
        return total

    def __iadd__(self, other: "Result") -> "Result":
        for name, tally in other.tallies.items():
            own = self.tallies.setdefault(name, Tally())
            own += tally
        self.counts = self.counts + other.counts
        for stage, seconds in other.seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        for name, ranking in other.rankings.items():
            self.rankings[name] = self.rankings.get(name, Ranking()) + ranking
        self.documents |= other.documents
        return self

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the seconds that a block takes under a stage's name."""
        start = perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + perf_counter() - start


def measure_examples(
    examples: Sequence[Example],
    source: Source[Any],
    analyses: Sequence[Analysis] | ByKind,
    options: RunOptions,
    role: CorpusRole = CorpusRole.TEXT,
    max_tokens: int | None = None,
    progress: Progress = lambda n_examples: None,
) -> Result:
    """Measure these examples and add them up: a shard, or a whole small corpus.

    Documents (the role COREF) are cut into windows, or to one, which are then the examples. What is
    measured by kind of attention has tallies by kind (`tally_name`).
    """
    named = name_analyses(analyses)
    result = Result({name: Tally() for _, name, _ in named})
    max_tokens = max_tokens or source.max_tokens
    with result.timed("encode"):
        n_given = len(examples)
        if role is CorpusRole.COREF:
            is_truncated = options.coref_window == "truncate"
            examples = cut_windows(examples, source, max_tokens, result.counts, is_truncated)
        encodings = source.encode(examples, max_tokens)
        kept = keep_usable(encodings, role, max_tokens, result.counts)
    rankers = {name: a.rank for _, name, a in named if hasattr(a, "rank")}
    result.rankings = {name: Ranking() for name in rankers}
    waiting = _Waiting(result, rankers)
    n_done = _report(progress, 0, len(encodings) - len(kept), len(encodings), n_given)
    observer = _Observer(source, named, options, result, max_tokens)
    most_tokens = min(options.batch_tokens, observer.most_tokens)
    with getattr(source, "prepared", nullcontext)():
        for members in equal_length_batches(kept, most_tokens):
            with result.timed("model"):
                values = observer.measure(source.batch(members))
            with result.timed("add"):
                waiting.put(members, values)
            n_done = _report(progress, n_done, len(members), len(encodings), n_given)
    with result.timed("add"):
        waiting.add_up()
    return result


class Named(NamedTuple):
    """An analysis, the kind of attention it is shown (None: all there is), and its tally's name."""

    kind: AttentionKind | None
    name: str
    analysis: Any


def name_analyses(analyses: Sequence[Analysis] | ByKind) -> list[Named]:
    """The analyses one by one."""
    if not isinstance(analyses, Mapping):
        return [Named(None, analysis.name, analysis) for analysis in analyses]
    return [
        Named(kind, tally_name(kind, analysis.name), analysis)
        for kind, own in analyses.items()
        for analysis in own
    ]


def _report(progress: Progress, n_before: int, n_new: int, n_encodings: int, n_given: int) -> int:
    """Tell how many of the given examples are done, where some were cut into several."""
    n_done = n_before + n_new
    per = max(n_encodings, 1)
    progress(n_done * n_given // per - n_before * n_given // per)
    return n_done


@dataclass
class _Waiting:
    """Values of several batches, to be added up together: few large products instead of many."""

    result: Result
    rankers: Mapping[str, Callable[[Values], Mapping[str, Any]]]
    members: list[Encoding] = field(default_factory=list)
    batches: list[tuple[slice, Mapping[str, Values]]] = field(default_factory=list)
    n_numbers: int = 0

    def put(self, members: Sequence[Encoding], values: Mapping[str, Values]) -> None:
        """Keep the values of a batch; add up when there are many."""
        n_before = len(self.members)
        self.members += members
        self.batches.append((slice(n_before, len(self.members)), values))
        self.n_numbers += sum(v.size for arrays in values.values() for v in arrays.values())
        if self.n_numbers > WAITING_NUMBERS:
            self.add_up()

    def add_up(self) -> None:
        """Add all that is waiting to the tallies, and rank it."""
        documents = [encoding.example.own_document for encoding in self.members]
        self.result.documents |= set(map(stable_hash, documents))
        buckets = np.array([bucket_of(document) for document in documents], np.int64)
        ids = np.array([stable_hash(e.example.id) for e in self.members], np.uint64)
        sizes = [max(len(encoding), len(encoding.target or ())) for encoding in self.members]
        is_long = np.array(sizes) > DRAWN_TOKENS
        for name, tally in self.result.tallies.items():
            values = self._join(name)
            tally.add(buckets, values)
            if name in self.rankers and self.members:
                self.result.rankings[name].add(ids, is_long, self.rankers[name](values))
        self.members, self.batches, self.n_numbers = [], [], 0

    def _join(self, analysis: str) -> Values:
        """The values of all batches by name; an example without a name has zeros."""
        joined: Values = {}
        for place, values in self.batches:
            for name, value in values[analysis].items():
                if name not in joined:
                    joined[name] = np.zeros((len(self.members), *value.shape[1:]), value.dtype)
                joined[name][place] = value
        return joined


def keep_usable(
    encodings: Sequence[Encoding], role: CorpusRole, max_tokens: int, counts: ExampleCounts
) -> list[Encoding]:
    """Count what is used, cut or left out. Text may be cut; an annotated sentence may not."""
    kept = []
    for encoding in encodings:
        if not (encoding.kinds == TokenKind.TEXT).any():
            counts.skip("no tokens", encoding.example.id)
        elif encoding.target and not (encoding.target.kinds == TokenKind.TEXT).any():
            counts.skip("no target (text_pair)", encoding.example.id)
        elif encoding.is_truncated and role is not CorpusRole.TEXT:
            counts.skip(f"longer than {max_tokens} tokens", encoding.example.id)
        else:
            counts.used += 1
            target = encoding.target
            counts.without_document += encoding.example.document is None
            counts.truncated += encoding.is_truncated or bool(target and target.is_truncated)
            counts.tokens += len(encoding) + len(target or ())
            counts.unaligned_words += 0 if encoding.is_truncated else _count_unaligned(encoding)
            counts.note(SHARED, encoding.n_shared)
            counts.count_tokenization(encoding.tokenization)
            kept.append(encoding)
    return kept


def _count_unaligned(encoding: Encoding) -> int:
    words = encoding.example.words
    return 0 if words is None else len(words) - len(set(encoding.word_ids.tolist()) - {-1})


class _Observer:
    """Shows analyses what a source emits, batch after batch, and keeps what they measure."""

    def __init__(
        self,
        source: Source[Any],
        analyses: Sequence[Named],
        options: RunOptions,
        result: Result,
        max_tokens: int = ALL,
    ) -> None:
        self.source, self.result, self.n_rows = source, result, options.slice_rows
        self.of_layers = [a for a in analyses if not a.analysis.watches.compares_layers]
        self.across_layers = [a for a in analyses if a.analysis.watches.compares_layers]
        self.buffers = {
            _wanted_by(named): RowBuffer(
                min(named.analysis.rows, max_tokens),
                options.seed,
                _part_of(source, named.kind).n_layers,
                heads_a_layer(_part_of(source, named.kind), named.analysis.max_heads),
            )
            for named in self.across_layers
        }

        self.readings = self._collect_readings()

    def _collect_readings(self) -> list[Any] | None:
        """What is read off slices, each once; None: something needs whole maps."""
        analyses = [named.analysis for named in self.of_layers]
        is_known = all(hasattr(analysis, "reads") for analysis in analyses)
        if not (is_known and hasattr(self.source, "read")):
            return None
        wanted = [reading for analysis in analyses for reading in analysis.reads]
        return list(dict.fromkeys([*wanted, *self.buffers.values()]))

    @property
    def most_tokens(self) -> int:
        """The most tokens of a batch for which the rows of all heads take bounded memory."""
        return min(
            [ROW_NUMBERS // buffer.numbers_a_token for buffer in self.buffers.values()] or [ALL]
        )

    def measure(self, batch: Batch) -> dict[str, Values]:
        """The values of a batch, by the names of tallies."""
        layers: dict[str, dict[int, Measured]] = {a.name: {} for a in self.of_layers}
        is_finite: list[tuple[int, Tensor]] = []
        numbers = layer_numbers(self.source)
        for buffer in self.buffers.values():
            buffer.begin_batch()

        def observe(observed: Any) -> None:
            shown = (None, getattr(observed, "kind", None))
            with self.result.timed("measure (within model)"):
                is_finite.append((numbers[observed.layer], observed.is_finite()))
                for (kind, *_), buffer in self.buffers.items():
                    if kind in shown:
                        observed.read(buffer)
                for kind, name, analysis in self.of_layers:
                    if kind in shown:
                        layers[name][observed.layer] = analysis.measure(observed)

        if self.readings is None:
            self.source.attend(batch, observe)
        else:
            self.source.read(batch, self.readings, self.n_rows, observe)  # type: ignore[attr-defined]
        # Only now is anything read: a device works on while the host plans the next layer.
        refuse_not_finite(is_finite, batch)
        with self.result.timed("measure (within model)"):
            for named in self.across_layers:
                rows = self.buffers[_wanted_by(named)].rows()
                layers[named.name] = {0: named.analysis.measure(rows)}
            return {
                named.name: _finish(named.analysis, layers[named.name], batch)
                for named in (*self.of_layers, *self.across_layers)
            }


def _part_of(source: Any, kind: AttentionKind | None) -> Any:
    """What has layers and heads: the source, or one kind of its attention."""
    return source if kind is None else source.parts[kind]


def _wanted_by(named: Named) -> tuple[AttentionKind | None, int, int]:
    """Which attention an analysis across layers is shown: how many rows, of how many heads."""
    return named.kind, int(named.analysis.rows), int(named.analysis.max_heads)


def heads_a_layer(source: Source[Any], max_heads: int) -> int:
    """How many heads of each layer are compared where at most so many are."""
    return min(source.n_heads, max(1, max_heads // source.n_layers))


def _finish(analysis: Any, measured: Mapping[int, Measured], batch: Batch) -> Values:
    """The values of all layers side by side, in order; of what a single layer gave, one."""
    layers = [
        {name: value() if callable(value) else value for name, value in measured[layer].items()}
        for layer in sorted(measured)
    ]
    values: Mapping[str, Tensor] = {
        name: torch.stack([layer[name] for layer in layers if name in layer], dim=1)
        for name in dict.fromkeys(name for layer in layers for name in layer)
    }
    if hasattr(analysis, "finish"):
        values = analysis.finish(values, batch)
    return {name: value.cpu().numpy() for name, value in values.items()}


def refuse_not_finite(is_finite: Sequence[tuple[int, Tensor]], batch: Batch) -> None:
    """An error for numbers that are none: the layer and what `Observation.is_finite` said of it."""
    seen = torch.stack([finite for _, finite in is_finite]).cpu()  # [layer, example]
    if seen.all():
        return
    place, example = (~seen).nonzero()[0].tolist()
    raise ModelError(
        f"The attention weights of layer {is_finite[place][0] + 1} are not numbers (NaN) for "
        f"example {batch.encodings[example].example.id!r}. Expected finite weights; the model's "
        "weights may be damaged, or its dtype too narrow: try --dtype float32."
    )


@dataclass(eq=False)
class RowBuffer:
    """A reading that copies the same query rows of every layer; its memory serves all batches.

    It holds `n_rows` rows (or all) of `n_heads` heads a layer (or all), of one batch, however long
    the corpus.
    """

    n_rows: int
    seed: int
    n_layers: int
    n_heads: int
    _memory: Tensor = field(default_factory=lambda: torch.empty(0), repr=False)
    _shown: list[tuple[int, int]] = field(
        default_factory=list
    )  # heads kept of a layer, of how many

    @property
    def numbers_a_token(self) -> int:
        """How many numbers it holds, at most, for each token of a batch."""
        return self.n_rows * self.n_layers * self.n_heads

    def begin_batch(self) -> None:
        """Make ready for the layers of a batch."""
        self._shown = []

    def begin(self, layer: MapShape) -> "RowBuffer":
        """Make room for the next layer."""
        of_heads = layer.weights.shape[1]
        if not self._shown:
            self._batch, self._has_sink = layer.batch, layer.has_sink
            self._queries = choose_rows(layer.batch, self.n_rows, self.seed)
            self._rows = self._make_room(layer)
        self._heads = spread_heads(of_heads, self.n_heads)
        self._first = sum(kept for kept, _ in self._shown)
        self._shown.append((len(self._heads), of_heads))
        return self

    def add(self, found: "RowBuffer", part: MapSlice) -> None:
        """Copy those of the chosen rows that are in a slice."""
        weights = part.weights
        if len(self._heads) < weights.shape[1]:
            weights = weights.index_select(1, self._find("heads", self._heads))
        n_keys = weights.shape[-1]
        into = self._rows[:, :, self._first : self._first + len(self._heads)]
        for place, example in enumerate(range(part.examples.start, part.examples.stop)):
            rows = self._queries[example]
            low, high = np.searchsorted(rows, [part.rows.start, part.rows.stop])
            if low == high:
                continue
            chosen = self._find((example, part.first_row), rows[low:high] - part.first_row)
            own = weights[place].index_select(1, chosen)  # [head, row, key]
            into[example, low:high, :, :n_keys] = own.transpose(0, 1)
            into[example, low:high, :, n_keys:] = 0
            if self._has_sink:
                missing = (1 - own.sum(-1)).clamp_min(0)  # [head, row]
                into[example, low:high, :, -1] = missing.T

    def _find(self, which: object, places: NDArray[np.int64]) -> Tensor:
        """Places where the batch is: they are the same in every layer, and moved there once."""
        batch: Batch = self._batch
        key = (self, which, len(places))
        return batch.remember(key, lambda: torch.tensor(places, device=batch.device))

    def rows(self) -> AttentionRows:
        """The rows of all layers since the batch began; valid until the next begins."""
        n_heads, of_heads = zip(*self._shown, strict=True)
        used = self._rows[:, :, : sum(n_heads)]  # [example, row, head, key]
        return AttentionRows(used, n_heads, self._batch, of_heads)

    def _make_room(self, layer: MapShape) -> Tensor:
        """A buffer `[example, row, head, key]`: float32, or float64 where the weights are."""
        device, n_keys = layer.batch.device, layer.weights.shape[-1] + layer.has_sink
        shape = (*self._queries.shape, self.n_layers * self.n_heads, n_keys)
        dtype = torch.float64 if layer.weights.dtype == torch.float64 else torch.float32
        size = torch.Size(shape).numel()
        is_fit = self._memory.dtype == dtype and self._memory.device == device
        if not is_fit or len(self._memory) < size:
            self._memory = torch.empty(0)  # let the old go before the new is made
            self._memory = torch.empty(size, dtype=dtype, device=device)
        return self._memory[:size].view(shape)
