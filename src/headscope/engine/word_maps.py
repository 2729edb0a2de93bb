"""The store of a treebank's word attention and hidden states: found if there, else measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from json import dumps
from logging import getLogger
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.contracts import AttentionSource, CorpusRole
from headscope.data.attention import LayerAttention
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.words import WordReading, special_weights, word_means, word_weights
from headscope.engine.cluster import Pool, open_pool
from headscope.engine.measure import Progress, keep_usable, refuse_not_finite
from headscope.engine.sample import Sample
from headscope.engine.work import describe_source
from headscope.errors import ModelError
from headscope.models.encode import equal_length_batches
from headscope.models.hidden import HiddenStates, refuse_bad_states
from headscope.models.loaded import LoadedModel
from headscope.options import ClusterOptions, RunOptions
from headscope.probes import store
from headscope.probes.treebank import ProbeTreebank, keep_words

__all__ = ["StoredMaps"]

log = getLogger("headscope")

Measured = list[Tensor]  # maps [example, map, word, other], and vectors of each layer


@dataclass(frozen=True)
class StoredMaps:
    """Treebanks with the attention of one model, kept in a folder under the name of their key."""

    source: AttentionSource
    folder: Path
    options: RunOptions
    query_pieces: str = "mean"
    hidden: HiddenStates | None = None  # the layers whose vectors are stored too
    cluster: ClusterOptions | None = None  # that is to measure
    open_source: Callable[[], AttentionSource] | None = None  # by each of its workers
    _model: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def facts(self) -> dict[str, str]:
        """What must be the same for all workers."""
        return describe_source(self.source)

    def treebank(self, sample: Sample, progress: Progress = lambda n: None) -> ProbeTreebank:
        """The sentences of a sample with their maps; the model runs only where there are none."""
        sample = sample.load_into_memory()
        key = self._key(sample)
        name = sha256(dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        path = self.folder / f"{sample.corpus.name}-{name}"
        maps = (
            store.open_store(path, key)
            if path.exists()
            else self._write(path, key, sample, progress)
        )
        kept = dict(zip(maps.ids, maps.index.kept, strict=True))
        sentences = {e.id: keep_words(e, kept[e.id]) for e in sample if e.id in kept}
        return ProbeTreebank.whole(sentences, maps)

    def _key(self, sample: Sample) -> dict[str, Any]:
        if not self._model:
            self._model.update(self.source.describe())
        return {
            "model": self._model["digest"],
            "tokenizer": self._model.get("tokenizer"),
            "corpus": sample.corpus.digest(),
            "sentences": sample.n_examples,
            "seed": sample.seed if sample.n_examples < sample.n_available else None,
            "max_tokens": self.source.max_tokens,
            "query_pieces": self.query_pieces,
            "dtype": self._model.get("dtype"),
            "weights": self._model.get("weights"),
            "hidden_layers": list(self.hidden.layers) if self.hidden else [],
        }

    def _write(
        self, path: Path, key: Mapping[str, Any], sample: Sample, progress: Progress
    ) -> store.WordMaps:
        shards = [s for _, s in sample.read(sample.shards(self.options.shard_examples))]
        index = self._plan(key, shards)
        log.info(
            "Writing the word attention of %d sentences to %s: %.1f MB",
            len(index.ids),
            path,
            index.n_bytes / 1e6,
        )
        if self.cluster is None or self.cluster.ray is None:
            batches = chain.from_iterable(map(self.measure, shards))
            return store.write_store(path, index, _blocks(index, batches, progress))
        without: Any = None  # a worker loads the model itself
        hidden = self.hidden and replace(self.hidden, source=without)
        recipe = partial(_open_worker, replace(self, source=without, hidden=hidden))
        with open_pool(self.cluster, recipe, self.facts()) as pool:
            maps = _measure_on_cluster(pool, shards)
            return store.write_store(path, index, _blocks(index, maps, progress))

    def _plan(
        self, key: Mapping[str, Any], shards: Iterable[Sequence[Example]]
    ) -> store.StoreIndex:
        """Which sentences stand where in the store; takes the tokenizer alone."""
        counts = ExampleCounts()
        encodings = [
            encoding
            for examples in shards
            for members in self._batches(examples, counts)
            for encoding in members
        ]
        ids = [encoding.example.id for encoding in encodings]
        kept = [sorted(set(encoding.word_ids.tolist()) - {-1}) for encoding in encodings]
        shape = self.source.n_layers, self.source.n_heads
        vectors = (self.hidden.layers, self.hidden.dimension) if self.hidden else ((), 0)
        return store.StoreIndex(key, *shape, ids, kept, asdict(counts), *vectors)

    def _batches(
        self, examples: Sequence[Example], counts: ExampleCounts
    ) -> Iterator[list[Encoding]]:
        encodings = self.source.encode(examples, self.source.max_tokens)
        source, role = self.source, CorpusRole.TREEBANK
        usable = keep_usable(encodings, source, role, source.max_tokens, counts)
        return equal_length_batches(usable, self.options.batch_tokens)

    def measure(self, examples: Sequence[Example]) -> Iterator[Measured]:
        """The maps of each batch of a shard, and the vectors of its words, layer by layer."""
        for members in self._batches(examples, ExampleCounts()):
            batch = self.source.batch(members)
            ids = [encoding.example.id for encoding in members]
            measured: Measured = []
            with ExitStack() as watching:
                states = watching.enter_context(self.hidden.observe()) if self.hidden else []
                measured.append(_measure_words(self.source, batch, self.query_pieces))
            pool = word_means(batch, self.query_pieces)  # [example, word, token]
            for state in states:
                vectors = (pool @ state.float().to(pool.device)).half().cpu()
                refuse_bad_states(vectors, ids)
                measured.append(vectors)  # [example, word, dimension]
            yield measured

    def measure_shard(self, examples: Sequence[Example]) -> list[Measured]:
        """As `measure`, all at once: what a worker sends."""
        return list(self.measure(examples))


def _open_worker(maps: StoredMaps) -> StoredMaps:
    """In a worker of a cluster: the same with a source of its own."""
    assert maps.cluster is not None
    assert maps.open_source is not None
    torch.set_num_threads(maps.cluster.cpus_per_worker)
    source: Any = maps.open_source()
    return replace(maps, source=source, hidden=maps.hidden and replace(maps.hidden, source=source))


def _measure_on_cluster(pool: Pool, shards: Iterable[list[Example]]) -> Iterator[Measured]:
    waiting = ((examples,) for examples in shards)
    window = 4 * (pool.options.workers or 4)
    for _, maps in pool.run("measure_shard", lambda: next(waiting, None), window):
        if isinstance(maps, str):
            raise ModelError(
                f"The maps of some sentences could not be measured: {maps} Expected a store of all "
                "sentences; fix what is wrong, and run it again."
            )
        yield from maps


def _blocks(
    index: store.StoreIndex, batches: Iterable[Measured], progress: Progress
) -> Iterator[list[Tensor]]:
    """The numbers of each sentence, as a store keeps them."""
    kept = iter(index.kept)
    for maps, *vectors in batches:
        for i, (of_example, words) in enumerate(zip(maps, kept, strict=False)):
            yield [_choose_words(of_example, words), *(layer[i, words] for layer in vectors)]
        progress(len(maps))


def _measure_words(
    source: AttentionSource, batch: Batch, query_pieces: str
) -> Int[Tensor, "example map word other"]:
    """Attention among words and to special tokens, all layers, as a store holds it."""
    layers: list[Tensor] = []
    is_finite: list[tuple[int, Tensor]] = []
    numbers = source.layer_numbers

    def observe(attention: LayerAttention) -> None:
        is_finite.append((numbers[attention.layer], attention.is_finite()))
        words = word_weights(attention, query_pieces)  # [example, head, word, other]
        special = _special_weights(attention, query_pieces)  # [example, head, word, special]
        layers.append(store.encode_weights(torch.cat([words, special], dim=-1)))

    if isinstance(source, LoadedModel):
        source.read(batch, [WordReading(query_pieces)], RunOptions.slice_rows, observe)
    else:
        source.attend(batch, observe)
    refuse_not_finite(is_finite, batch)
    return torch.cat(layers, dim=1).cpu()


def _special_weights(
    attention: LayerAttention, query_pieces: str
) -> Float[Tensor, "example head word special"]:
    """Attention from each word to the opening and to the closing special tokens."""
    kinds = attention.batch.kinds
    to_special, _ = special_weights(attention, query_pieces)  # [example, head, word, special]
    is_special = kinds != TokenKind.TEXT
    numbers = is_special.cumsum(-1) - 1  # of each special token among them
    columns = to_special.new_zeros(len(kinds), to_special.shape[-1], store.N_SPECIAL)
    for column, kind in enumerate((TokenKind.CLS, TokenKind.SEP)):
        examples, tokens = (kinds == kind).nonzero(as_tuple=True)
        columns[examples, numbers[examples, tokens], column] = 1
    return to_special @ columns[:, None]


def _choose_words(
    maps: Int[Tensor, "map word other"], words: list[int]
) -> Int[Tensor, "word other map"]:
    """The cells between these words, and from them to the special tokens."""
    n = len(words)
    if words != list(range(n)):
        maps = maps[:, words][
            :, :, [*words, *range(maps.shape[2] - store.N_SPECIAL, maps.shape[2])]
        ]
    cells = torch.empty(n, n + store.N_SPECIAL, len(maps), dtype=maps.dtype)
    cells[:, :n] = maps[:, :n, :n].permute(1, 2, 0)
    cells[:, n:] = maps[:, :n, -store.N_SPECIAL :].permute(1, 2, 0)
    return cells
