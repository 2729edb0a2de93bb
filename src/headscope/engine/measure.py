"""The engine: encode, batch, observe, measure, add. Analyses know nothing of what is here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import Analysis, Annotation, AttentionKind, CorpusRole, Source
from headscope.data.attention import (
    Changes,
    Copying,
    Gradients,
    HeadSetLosses,
    LayerAttention,
    LayerChange,
    LayerCopying,
    LayerGradient,
    Predictions,
    Readings,
)
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example, stable_hash
from headscope.data.reading import AnyReading, Reading
from headscope.data.sampled_rows import SampledRows
from headscope.engine.resolve import blame_package, check_values
from headscope.engine.windows import encode_windows
from headscope.errors import ModelError
from headscope.models.encode import equal_length_batches
from headscope.options import RunOptions
from headscope.runs.tables import tally_name
from headscope.stats.bucket import N_BUCKETS, bucket_of
from headscope.stats.ranking import Ranking
from headscope.stats.sums import PLAIN, Tally, key_of

__all__ = [
    "ByKind", "Progress", "Result", "by_key", "keep_usable", "measure_batch", "measure_examples",
    "refuse_not_finite", "show_layers",
]  # fmt: skip

WAITING_NUMBERS = 4_000_000  # 16 MB of values, before they are added up
ROW_NUMBERS = 128_000_000  # 512 MB of rows of all heads, before these are compared
ALL = 10**9  # tokens: no limit
SHARED = "word pieces that cover two words (counted for the word with the larger part)"
DRAWN_TOKENS = 30  # what a drawing shows with ease; longer examples come after all others

Array = NDArray[np.float64]
Values = dict[str, NDArray[np.floating[Any]]]  # name (and label) -> [example, ...]
Progress = Callable[[int], None]  # told how many examples are done
Predict = Callable[[Batch], Predictions]  # of the same model with its language-modelling head
ByKind = Mapping[AttentionKind, Sequence[Analysis]]  # of an encoder-decoder that is measured whole


@dataclass
class Result:
    """The sums over some examples, and what became of these. Results add."""

    tallies: dict[str, Tally] = field(default_factory=dict)  # by analysis
    counts: ExampleCounts = field(default_factory=ExampleCounts)
    seconds: dict[str, float] = field(default_factory=dict)  # by stage
    rankings: dict[str, Ranking] = field(default_factory=dict)  # by analysis
    # of each document the hash of its name, with its bucket as the remainder by 64
    documents: set[int] = field(default_factory=set)

    def __add__(self, other: "Result") -> "Result":
        total = Result()
        total += self
        total += other
        return total

    def __iadd__(self, other: "Result") -> "Result":
        for name, tally in other.tallies.items():
            total = self.tallies.setdefault(name, Tally())
            total += tally
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
    predict: Predict | None = None,
) -> Result:
    """Measure these examples and add them up: a shard, or a whole small corpus.

    Documents (the role COREF) are cut into windows, or to one, which are then the examples. What is
    measured by kind of attention has tallies by kind (`tally_name`).
    """
    named = name_analyses(analyses)
    result = Result({n: Tally() for _, n, _ in named}, rankings={n: Ranking() for _, n, _ in named})
    max_tokens = max_tokens or source.max_tokens
    with result.timed("encode"):
        n_given = len(examples)
        is_truncated = options.is_truncated(role)
        encodings = encode_windows(examples, source, role, max_tokens, result.counts, is_truncated)
        kept = keep_usable(encodings, source, role, max_tokens, result.counts)
    if any(Annotation.NEEDLES in analysis.needs for _, _, analysis in named):
        result.counts.tokenization.clear()  # what it would count are stretches of text, not words
    waiting = _Waiting(result, named, is_weighed=options.weigh == "documents")
    observer = _Observer(source, named, options, result, max_tokens, predict)
    n_done = 0

    def report(n_new: int) -> None:
        """Tell how many of the given examples are done, where some were cut into several."""
        nonlocal n_done
        n_before, n_done, n_all = n_done, n_done + n_new, max(len(encodings), 1)
        progress(n_done * n_given // n_all - n_before * n_given // n_all)

    report(len(encodings) - len(kept))
    with source.prepared():
        for members in equal_length_batches(kept, min(options.batch_tokens, observer.most_tokens)):
            with result.timed("model"):
                values = observer.measure(source.batch(members))
            with result.timed("add"):
                waiting.put(members, values)
            report(len(members))
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
        for kind, of_kind in analyses.items()
        for analysis in of_kind
    ]


@dataclass
class _Waiting:
    """Values of several batches, to be added up together: few large products instead of many."""

    result: Result
    analyses: Sequence[Named]
    is_weighed: bool  # in means over text documents weigh alike
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
        ids = np.array([example.key for example in examples], np.uint64)
        sizes = [max(len(encoding), len(encoding.target or ())) for encoding in self.members]
        is_long = np.array(sizes) > DRAWN_TOKENS
        for _, name, analysis in self.analyses:
            has_weights = self.is_weighed and analysis.weighs_documents
            weighed = weights if has_weights else np.ones_like(weights)
            values = self._join(name, weighed)
            self.result.tallies[name].add(buckets, values, weighed)
            if self.members:
                with blame_package(analysis, "rank"):
                    scores = analysis.rank(values)
                self.result.rankings[name].add(ids, is_long, scores)
        self.members, self.batches, self.n_numbers = [], [], 0

    def _join(self, analysis: str, weights: Float[Array, " example"]) -> Values:
        """The values of all batches by name; an example without a name has zeros.

        Of values that are kept in one sum there is one row, their weighted sum.
        """
        joined: Values = {}
        for rows, values in self.batches:
            for name, value in values[analysis].items():
                if name.startswith(PLAIN):
                    is_sum = len(value) < rows.stop - rows.start  # over the batch, already
                    total = value if is_sum else np.tensordot(weights[rows], value, 1)[None]
                    if name not in joined:
                        joined[name] = np.zeros(total.shape)
                    joined[name] += total
                    continue
                if name not in joined:
                    joined[name] = np.zeros((len(self.members), *value.shape[1:]), value.dtype)
                joined[name][rows] = value
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
            counts.characters += encoding.n_characters
            counts.unread += encoding.n_unread
            if encoding.example.words is not None and not encoding.is_truncated:
                n_aligned = len(set(encoding.word_ids.tolist()) - {-1})
                counts.unaligned_words += len(encoding.example.words) - n_aligned
            counts.note(SHARED, encoding.n_shared)
            counts.count_tokenization(encoding.tokenization)
            kept.append(encoding)
    return kept


def show_layers(readings: Sequence[AnyReading], observed: Iterable[Any]) -> Any:
    """What an analysis with these readings is shown of all layers."""
    layers = _Layers(readings)
    for layer in observed:
        layers.add(layer)
    return layers.join()


class _Layers:
    """The layers of a batch as an analysis is shown them, kept while the model runs."""

    def __init__(self, readings: Sequence[AnyReading]) -> None:
        self._readings = readings
        self._values: dict[AnyReading, list[Any]] = {reading: [] for reading in readings}
        self._layers: list[Any] = []

    def add(self, observed: Any) -> None:
        """Keep what is read off a layer, not its maps."""
        if isinstance(observed, LayerAttention):
            for reading, layers in self._values.items():
                layers.append(observed.read(reading))
            facts = (observed.batch, observed.keys, observed.visible, observed.has_sink)
            self._layers.append((*facts, observed.n_groups))
        else:
            self._layers.append(observed.without_maps())

    def join(self, predictions: Predictions | None = None) -> Any:
        """All layers together, as `Analysis.measure` gets them."""
        first = self._layers[0]
        if isinstance(first, HeadSetLosses):
            return first
        if isinstance(first, LayerCopying):
            return Copying.join(self._layers)
        if isinstance(first, LayerChange):
            return Changes.join(self._layers)
        if isinstance(first, LayerGradient):
            return Gradients.join(sorted(self._layers, key=lambda observed: observed.layer))
        batch, keys, _, has_sink, n_groups = first
        visible = torch.stack([layer[2] for layer in self._layers])  # [layer, query]
        values = {reading: reading.join(layers) for reading, layers in self._values.items()}
        return Readings(batch, keys, visible, has_sink, values, predictions, n_groups)


class _Observer:
    """Shows analyses what a source emits, batch after batch, and keeps what they measure."""

    def __init__(
        self,
        source: Source[Any],
        analyses: Sequence[Named],
        options: RunOptions,
        result: Result,
        max_tokens: int = ALL,
        predict: Predict | None = None,
    ) -> None:
        self.source, self.analyses, self.result = source, analyses, result
        self.predict = predict if any(a.predicts for _, _, a in analyses) else None
        self.n_rows, self.max_tokens = options.slice_rows, max_tokens
        readings: dict[AttentionKind | None, dict[AnyReading, None]] = {}
        for kind, _, analysis in analyses:
            readings.setdefault(kind, {}).update(dict.fromkeys(analysis.reads))
        self.readings = {kind: list(of_kind) for kind, of_kind in readings.items()}
        # What is read slice by slice, each once.
        parts = [(r,) if isinstance(r, Reading) else r.of for rs in readings.values() for r in rs]
        self.by_slice = list(dict.fromkeys(reading for part in parts for reading in part))

    @property
    def most_tokens(self) -> int:
        """The most tokens of a batch for which the rows of all heads take bounded memory."""
        limits = [ALL]
        for kind, readings in self.readings.items():
            source: Any = self.source
            part = source if kind is None else source.parts[kind]
            limits += [
                ROW_NUMBERS // r.numbers_per_token(part.n_layers, part.n_heads, self.max_tokens)
                for r in readings
                if isinstance(r, SampledRows)
            ]
        return min(limits)

    def measure(self, batch: Batch) -> dict[str, Values]:
        """The values of a batch, by the names of tallies."""
        layers = {kind: _Layers(readings) for kind, readings in self.readings.items()}
        is_finite: list[tuple[int, Tensor]] = []
        numbers = self.source.layer_numbers

        def observe(observed: Any) -> None:
            kinds = {None, observed.kind if isinstance(observed, LayerAttention) else None}
            with self.result.timed("measure (within model)"):
                is_finite.append((numbers[observed.layer], observed.is_finite()))
                for kind in kinds & layers.keys():
                    layers[kind].add(observed)

        self.source.read(batch, self.by_slice, self.n_rows, observe)
        # Only now is anything read: a device works on while the host plans the next layer.
        refuse_not_finite(is_finite, batch)
        predictions = self.predict(batch) if self.predict else None
        with self.result.timed("measure (within model)"):
            seen = {kind: kept.join(predictions) for kind, kept in layers.items()}
            return {
                name: measure_batch(analysis, seen[kind], len(batch))
                for kind, name, analysis in self.analyses
            }


def measure_batch(analysis: Analysis, seen: Any, n_examples: int) -> Values:
    """What an analysis measures of a batch, by name; by label too where an axis is open."""
    with blame_package(analysis, "measure"):
        measured = by_key(analysis.measure(seen))
        values = {key: array.cpu().numpy() for key, array in measured.items()}
        check_values(analysis, values, n_examples)
        return values


def by_key(measured: Mapping[str, Tensor | Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """What was measured by name; by name and label where an axis is open."""
    return {
        key_of(name, label): array
        for name, value in measured.items()
        for label, array in (value if isinstance(value, Mapping) else {None: value}).items()
    }


def refuse_not_finite(is_finite: Sequence[tuple[int, Tensor]], batch: Batch) -> None:
    """An error for numbers that are none: the layer and what `Observation.is_finite` said of it."""
    seen = torch.stack([finite for _, finite in is_finite]).cpu()  # [layer, example]
    if seen.all():
        return
    row, example = (~seen).nonzero()[0].tolist()
    raise ModelError(
        f"The attention weights of layer {is_finite[row][0] + 1} are not numbers (NaN) for "
        f"example {batch.encodings[example].example.id!r}. Expected finite weights; the model's "
        "weights may be damaged, or its dtype too narrow: try --dtype float32."
    )
