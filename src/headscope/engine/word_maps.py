"""The store of a treebank's word attention and hidden states: found if there, else measured."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import islice
from json import dumps
from logging import getLogger
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.contracts import AttentionSource, CorpusRole, layer_numbers
from headscope.data.attention import LayerAttention
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.words import pool_words, word_weights
from headscope.engine.measure import Progress, keep_usable, refuse_not_finite
from headscope.engine.sample import Sample
from headscope.models.encode import equal_length_batches
from headscope.models.hidden import HiddenStates, refuse_bad_states
from headscope.options import RunOptions
from headscope.probes.store import N_SPECIAL, StoreIndex, WordMaps, open_store, write_store
from headscope.probes.treebank import ProbeTreebank, keep_words

__all__ = ["StoredMaps"]

log = getLogger("headscope")


@dataclass(frozen=True)
class StoredMaps:
    """Treebanks with the attention of one model, kept in a folder under the name of their key."""

    source: AttentionSource
    folder: Path
    options: RunOptions
    query_pieces: str = "mean"
    hidden: HiddenStates | None = None  # the layers whose vectors are stored too
    _model: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def treebank(self, sample: Sample, progress: Progress = lambda n: None) -> ProbeTreebank:
        """The sentences of a sample with their maps; the model runs only where there are none."""
        key = self._key(sample)
        name = sha256(dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        path = self.folder / f"{sample.corpus.name}-{name}"
        maps = open_store(path, key) if path.exists() else self._write(path, key, sample, progress)
        kept = dict(zip(maps.ids, maps.index.kept, strict=True))
        sentences = {e.id: keep_words(e, kept[e.id]) for e in sample if e.id in kept}
        return ProbeTreebank.whole(sentences, maps)

    def _key(self, sample: Sample) -> dict[str, Any]:
        """What the maps depend on."""
        if not self._model:
            self._model.update(self.source.describe())
        return {
            "model": self._model["digest"],
            "corpus": sample.corpus.digest(),
            "sentences": sample.n_examples,
            "seed": sample.seed if sample.highest_rank is not None else None,
            "max_tokens": self.source.max_tokens,
            "query_pieces": self.query_pieces,
            "dtype": self._model.get("dtype"),
            "weights": self._model.get("weights"),
            "hidden_layers": list(self.hidden.layers) if self.hidden else [],
        }

    def _write(
        self, path: Path, key: Mapping[str, Any], sample: Sample, progress: Progress
    ) -> WordMaps:
        index = self._plan(key, sample)
        log.info(
            "Writing the word attention of %d sentences to %s: %.1f MB",
            len(index.ids),
            path,
            index.n_bytes / 1e6,
        )
        return write_store(path, index, self._blocks(index, sample, progress))

    def _plan(self, key: Mapping[str, Any], sample: Sample) -> StoreIndex:
        """Which sentences stand where in the store; takes the tokenizer alone."""
        counts = ExampleCounts()
        ids, kept = list[str](), list[list[int]]()
        for members in self._batches(sample, counts):
            for encoding in members:
                ids.append(encoding.example.id)
                kept.append(_words_with_tokens(encoding))
        shape = self.source.n_layers, self.source.n_heads
        vectors = (self.hidden.layers, self.hidden.dimension) if self.hidden else ((), 0)
        return StoreIndex(key, *shape, ids, kept, asdict(counts), *vectors)

    def _batches(self, sample: Sample, counts: ExampleCounts) -> Iterator[list[Encoding]]:
        examples, max_tokens = iter(sample), self.source.max_tokens
        while shard := list(islice(examples, self.options.shard_examples)):
            encodings = self.source.encode(shard, max_tokens)
            usable = keep_usable(encodings, CorpusRole.TREEBANK, max_tokens, counts)
            yield from equal_length_batches(usable, self.options.batch_tokens)

    def _blocks(
        self, index: StoreIndex, sample: Sample, progress: Progress
    ) -> Iterator[list[Tensor]]:
        kept = iter(index.kept)
        for members in self._batches(sample, ExampleCounts()):
            batch = self.source.batch(members)
            with self._watch_hidden() as seen:
                maps = _measure_words(self.source, batch, self.query_pieces)
            pool = pool_words(batch, self.query_pieces).queries.float()
            vectors = [_halve(pool @ state.float().to(pool.device), batch) for state in seen]
            for i, (one, words) in enumerate(zip(maps, kept, strict=False)):
                yield [_choose_words(one, words), *(layer[i, words] for layer in vectors)]
            progress(len(members))

    def _watch_hidden(self) -> AbstractContextManager[list[Tensor]]:
        return self.hidden.observe() if self.hidden else nullcontext([])


def _words_with_tokens(encoding: Encoding) -> list[int]:
    return sorted(set(encoding.word_ids.tolist()) - {-1})


def _measure_words(
    source: AttentionSource, batch: Batch, query_pieces: str
) -> Float[Tensor, "example map word other"]:
    """Attention among words and to special tokens, all layers, in half precision."""
    layers: list[Tensor] = []
    is_finite: list[tuple[int, Tensor]] = []
    numbers = layer_numbers(source)

    def observe(attention: LayerAttention) -> None:
        is_finite.append((numbers[attention.layer], attention.is_finite()))
        words = word_weights(attention, query_pieces)  # [example, head, word, other]
        special = _special_weights(attention, query_pieces)  # [example, head, word, special]
        layers.append(torch.cat([words, special], dim=-1).half())

    source.attend(batch, observe)
    refuse_not_finite(is_finite, batch)
    return torch.cat(layers, dim=1).cpu()


def _halve(
    vectors: Float[Tensor, "example word dimension"], batch: Batch
) -> Float[Tensor, "example word dimension"]:
    """In half precision; an error for what is no number there."""
    halved = vectors.half().cpu()
    refuse_bad_states(halved, [encoding.example.id for encoding in batch.encodings])
    return halved


def _special_weights(
    attention: LayerAttention, query_pieces: str
) -> Float[Tensor, "example head word special"]:
    """Attention from each word to the opening and to the closing special tokens."""
    weights, kinds = attention.weights, attention.batch.kinds
    columns = torch.stack([kinds == TokenKind.CLS, kinds == TokenKind.SEP], dim=-1)
    to_special = weights @ columns[:, None].to(weights.dtype)  # [example, head, token, special]
    queries = pool_words(attention.batch, query_pieces).queries.to(weights.dtype)
    return queries[:, None] @ to_special


def _choose_words(
    maps: Float[Tensor, "map word other"], words: list[int]
) -> Float[Tensor, "word other map"]:
    """The cells between these words, and from them to the special tokens."""
    n = len(words)
    if words != list(range(n)):
        maps = maps[:, words][:, :, [*words, *range(maps.shape[2] - N_SPECIAL, maps.shape[2])]]
    cells = torch.empty(n, n + N_SPECIAL, len(maps), dtype=maps.dtype)
    cells[:, :n] = maps[:, :n, :n].permute(1, 2, 0)
    cells[:, n:] = maps[:, :n, -N_SPECIAL:].permute(1, 2, 0)
    return cells
