"""The engine: encode, batch, observe, measure, add. Analyses know nothing of what is here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import Analysis, AttentionKind, CorpusRole, Source
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example, stable_hash
from headscope.engine.plug_ins import blame_package, check_values
from headscope.engine.row_buffer import RowBuffer
from headscope.engine.windows import cut_windows
from headscope.errors import ModelError
from headscope.models.encode import equal_length_batches
from headscope.options import RunOptions
from headscope.runs.tables import tally_name
from headscope.stats.bucket import N_BUCKETS, bucket_of
from headscope.stats.ranking import Ranking
from headscope.stats.tally import PLAIN, Tally

__all__ = [
    "ByKind", "Progress", "Result", "heads_a_layer", "keep_usable", "measure_examples",
    "refuse_not_finite",
]  # fmt: skip

WAITING_NUMBERS = 4_000_000  # 16 MB of values, before they are added up
ROW_NUMBERS = 128_000_000  # 512 MB of rows of all heads, before these are compared
ALL = 10**9  # tokens: no limit
SHARED = "word pieces that cover two words (counted for the word with the larger part)"
DRAWN_TOKENS = 30  # what a drawing shows with ease; longer examples come after all others

Array = NDArray[np.float64]
Values = dict[str, NDArray[np.floating[Any]]]  # name -> [example, layer, ...]
Measured = Mapping[str, Tensor | Callable[[], Tensor]]  # of one layer, by an analysis
Progress = Callable[[int], None]  # told how many examples are done
ByKind = Mapping[AttentionKind, Sequence[Analysis]]  # of an encoder-decoder that is measured whole


@dataclass
class Result:
    """What measuring some examples gave: a tally per analysis, counts, seconds by stage, of some
    analyses the examples that show heads best, and of each document a number: the hash of its name,
    with its bucket as the remainder by 64."""

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
        kept = keep_usable(encodings, source, role, max_tokens, result.counts)
    rankers = {name: analysis.rank for _, name, analysis in named}
    result.rankings = {name: Ranking() for name in rankers}
    is_weighed = options.weigh == "documents"
    weighed = {n for _, n, a in named if is_weighed and a.weighs_documents}
    waiting = _Waiting(result, rankers, weighed)
    n_done = _report(progress, 0, len(encodings) - len(kept), len(encodings), n_given)
    observer = _Observer(source, named, options, result, max_tokens)
    most_tokens = min(options.batch_tokens, observer.most_tokens)
    with source.prepared():
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
    rankers: Mapping[str, Any]  # the methods `rank` of analyses
    weighed: Collection[str]  # tallies of means over text, in which documents weigh alike
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
        examples = [encoding.example for encoding in self.members]
        buckets = np.array([bucket_of(example) for example in examples], np.int64)
        self.result.documents |= {
            stable_hash(example.own_document) // N_BUCKETS * N_BUCKETS + int(bucket)
            for example, bucket in zip(examples, buckets, strict=True)
        }
        weights = np.array([example.weight for example in examples])
        ones = np.ones_like(weights)
        ids = np.array([stable_hash(example.id) for example in examples], np.uint64)
        sizes = [max(len(encoding), len(encoding.target or ())) for encoding in self.members]
        is_long = np.array(sizes) > DRAWN_TOKENS
        for name, tally in self.result.tallies.items():
            own_weights = weights if name in self.weighed else ones
            values = self._join(name, own_weights)
            tally.add(buckets, values, own_weights)
            if name in self.rankers and self.members:
                rank = self.rankers[name]
                with blame_package(rank.__self__, "rank"):
                    ranks = rank(values)
                self.result.rankings[name].add(ids, is_long, ranks)
        self.members, self.batches, self.n_numbers = [], [], 0

    def _join(self, analysis: str, weights: Float[Array, " example"]) -> Values:
        """The values of all batches by name; an example without a name has zeros.

        Of values that are kept in one sum there is one row, their weighted sum.
        """
        joined: Values = {}
        for place, values in self.batches:
            for name, value in values[analysis].items():
                if name.startswith(PLAIN):
                    is_sum = len(value) < place.stop - place.start  # over the batch, already
                    total = value if is_sum else np.tensordot(weights[place], value, 1)[None]
                    if name not in joined:
                        joined[name] = np.zeros(total.shape)
                    joined[name] += total
                    continue
                if name not in joined:
                    joined[name] = np.zeros((len(self.members), *value.shape[1:]), value.dtype)
                joined[name][place] = value
        return joined


def keep_usable(
    encodings: Sequence[Encoding],
    source: Source[Any],
    role: CorpusRole,
    max_tokens: int,
    counts: ExampleCounts,
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
        elif reason := source.explain_unusable(encoding):
            counts.skip(reason, encoding.example.id)
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
        if any(analysis.reads is None for analysis in analyses):
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
        numbers = self.source.layer_numbers
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
                        with blame_package(analysis, "measure"):
                            layers[name][observed.layer] = analysis.measure(observed)

        if self.readings is None:
            self.source.attend(batch, observe)
        else:
            self.source.read(batch, self.readings, self.n_rows, observe)
        # Only now is anything read: a device works on while the host plans the next layer.
        refuse_not_finite(is_finite, batch)
        with self.result.timed("measure (within model)"):
            for named in self.across_layers:
                rows = self.buffers[_wanted_by(named)].rows()
                with blame_package(named.analysis, "measure"):
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
    with blame_package(analysis, "measure"):
        values = _join_layers(analysis, measured, batch)
        check_values(analysis, values, len(batch.encodings))
        return values


def _join_layers(analysis: Any, measured: Mapping[int, Measured], batch: Batch) -> Values:
    layers = [
        {name: value() if callable(value) else value for name, value in measured[layer].items()}
        for layer in sorted(measured)
    ]
    values: Mapping[str, Tensor] = {
        name: torch.stack([layer[name] for layer in layers if name in layer], dim=1)
        for name in dict.fromkeys(name for layer in layers for name in layer)
    }
    return {name: value.cpu().numpy() for name, value in analysis.finish(values, batch).items()}


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
