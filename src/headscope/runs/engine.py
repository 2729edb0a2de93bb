"""The engine: encode, batch, attend, measure, add. Analyses know nothing of what is here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.contracts import Analysis, AttentionSource, LayersAnalysis, RankedAnalysis
from headscope.data.account import Account
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example, stable_hash
from headscope.data.ranking import Ranking
from headscope.data.replicates import replicate_weights
from headscope.data.tally import Tally
from headscope.errors import ModelError
from headscope.models.batching import equal_length_batches
from headscope.runs.layers import RowBuffer
from headscope.runs.study import Options, compares_layers, ranks_examples
from headscope.runs.windows import cut_windows

__all__ = ["Progress", "Result", "keep_usable", "measure_examples", "refuse_not_numbers"]

WAITING_NUMBERS = 4_000_000  # 16 MB of values, before they are added up
DRAWN_TOKENS = 30  # what a drawing shows with ease; longer examples come after all others

Values = dict[str, NDArray[np.floating[Any]]]  # name -> [example, layer, ...]


@dataclass
class Result:
    """What measuring some examples gave: a tally per analysis, the account, seconds by stage, and
    of some analyses the examples that show heads best."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    seconds: dict[str, float] = field(default_factory=dict)
    rankings: dict[str, Ranking] = field(default_factory=dict)

    def __add__(self, other: "Result") -> "Result":
        names = dict.fromkeys([*self.tallies, *other.tallies])
        stages = dict.fromkeys([*self.seconds, *other.seconds])
        return Result(
            {n: self.tallies.get(n, Tally()) + other.tallies.get(n, Tally()) for n in names},
            self.account + other.account,
            {s: self.seconds.get(s, 0.0) + other.seconds.get(s, 0.0) for s in stages},
            {
                name: self.rankings.get(name, Ranking()) + other.rankings.get(name, Ranking())
                for name in dict.fromkeys([*self.rankings, *other.rankings])
            },
        )

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count the seconds that a block takes under a stage's name."""
        start = perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + perf_counter() - start


Progress = Callable[[int], None]  # told how many examples are done


def measure_examples(
    examples: Sequence[Example],
    source: AttentionSource,
    analyses: Sequence[Analysis | LayersAnalysis],
    options: Options,
    role: str = "text",
    progress: Progress = lambda n_examples: None,
    window: int | None = None,
) -> Result:
    """Measure these examples and add them up: a shard, or a whole small corpus.

    Documents (role "coref") are cut into windows, which are then the examples.
    """
    result = Result({analysis.name: Tally() for analysis in analyses})
    max_tokens = options.tokens_for(role, source, window)
    with result.timed("encode"):
        n_given = len(examples)
        if role == "coref":
            examples = cut_windows(examples, source, max_tokens, result.account)
        encodings = source.encode(examples, max_tokens)
        kept = keep_usable(encodings, role, max_tokens, result.account)
    ranked = [analysis for analysis in analyses if ranks_examples(analysis)]
    result.rankings = {analysis.name: Ranking() for analysis in ranked}
    waiting = _Waiting(result, options, ranked)
    n_done = _report(progress, 0, len(encodings) - len(kept), len(encodings), n_given)
    buffers = _make_buffers(source, analyses, options.seed)
    for members in equal_length_batches(kept, options.batch_tokens):
        batch = source.batch(members)
        with result.timed("model"):
            values = _measure_batch(source, batch, analyses, buffers, result)
        with result.timed("add"):
            waiting.put(members, values)
        n_done = _report(progress, n_done, len(members), len(encodings), n_given)
    with result.timed("add"):
        waiting.add_up()
    return result


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
    options: Options
    ranked: Sequence[RankedAnalysis]
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
        keys = [encoding.example.key for encoding in self.members]
        weights = replicate_weights(keys, self.options.seed, self.options.replicates)
        ids = np.array([stable_hash(e.example.id) for e in self.members], np.uint64)
        is_long = np.array([len(encoding) > DRAWN_TOKENS for encoding in self.members], bool)
        ranks = {analysis.name: analysis.rank for analysis in self.ranked}
        for name, tally in self.result.tallies.items():
            values = self._join(name)
            tally.add(weights, values)
            if name in ranks and self.members:
                self.result.rankings[name].add(ids, is_long, ranks[name](values))
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
    encodings: Sequence[Encoding], role: str, max_tokens: int, account: Account
) -> list[Encoding]:
    """Count what is used, cut or left out. Text may be cut; an annotated sentence may not."""
    kept = []
    for encoding in encodings:
        if not (encoding.kinds == TokenKind.TEXT).any():
            account.skip("no tokens", encoding.example.id)
        elif encoding.is_truncated and role != "text":
            account.skip(f"longer than {max_tokens} tokens", encoding.example.id)
        else:
            account.used += 1
            account.truncated += encoding.is_truncated
            account.tokens += len(encoding)
            account.unaligned_words += 0 if encoding.is_truncated else _count_unaligned(encoding)
            kept.append(encoding)
    return kept


def _count_unaligned(encoding: Encoding) -> int:
    return len(encoding.example.words or ()) - len(set(encoding.word_ids.tolist()) - {-1})


def _make_buffers(
    source: AttentionSource, analyses: Sequence[Analysis | LayersAnalysis], seed: int
) -> dict[int, RowBuffer]:
    """By number of rows, a place for the layers that analyses compare; none where none does."""
    wanted = {analysis.rows for analysis in analyses if compares_layers(analysis)}
    return {n: RowBuffer(n, seed, source.n_layers * source.n_heads) for n in wanted}


def _measure_batch(
    source: AttentionSource,
    batch: Batch,
    analyses: Sequence[Analysis | LayersAnalysis],
    buffers: Mapping[int, RowBuffer],
    result: Result,
) -> Mapping[str, Values]:
    layers: dict[str, dict[int, dict[str, Any]]] = {analysis.name: {} for analysis in analyses}
    for buffer in buffers.values():
        buffer.begin(batch)

    def observe(attention: LayerAttention) -> None:
        with result.timed("measure (within model)"):
            refuse_not_numbers(attention)
            for buffer in buffers.values():
                buffer.put(attention)
            for analysis in analyses:
                if not compares_layers(analysis):
                    measured = analysis.measure(attention)
                    kept = {name: value.cpu() for name, value in measured.items()}
                    layers[analysis.name][attention.layer] = kept

    source.attend(batch, observe)
    with result.timed("measure (within model)"):
        for analysis in analyses:
            if compares_layers(analysis):
                measured = analysis.measure_layers(buffers[analysis.rows].rows())
                layers[analysis.name][0] = {name: v.cpu() for name, v in measured.items()}
    return {name: _stack_layers(measured) for name, measured in layers.items()}


def _stack_layers(measured: Mapping[int, dict[str, Any]]) -> Values:
    """The values of all layers side by side, in order; of what a single layer gave, one."""
    layers = [measured[layer] for layer in sorted(measured)]
    return {
        name: torch.stack([layer[name] for layer in layers if name in layer], dim=1).numpy()
        for name in dict.fromkeys(name for layer in layers for name in layer)
    }


def refuse_not_numbers(attention: LayerAttention) -> None:
    sums = attention.weights.sum(dim=(1, 2, 3))  # [example]; a NaN anywhere makes the sum one
    bad = (~torch.isfinite(sums)).nonzero().flatten().tolist()
    if bad:
        example = attention.batch.encodings[bad[0]].example.id
        raise ModelError(
            f"The attention weights of layer {attention.layer + 1} are not numbers (NaN) for "
            f"example {example!r}. Expected finite weights; the model's weights may be damaged, or "
            "its dtype too narrow: try --dtype float32."
        )
