"""What has no model: made-up sentences and random attention."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headscope.contracts import AttentionKind, Source, Watch
from headscope.data.attention import (
    HeadSetLosses,
    LayerAttention,
    LayerChange,
    LayerCopying,
    LayerGradient,
)
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import KINDS, ROOT, Example, Link, Mention, Tree
from headscope.data.reading import Reading, cut_maps

__all__ = [
    "N_HEADS", "N_LAYERS", "RELATIONS", "VOCABULARY", "MadeSource", "encode_pair", "encode_words",
    "make_example", "make_pair", "random_maps", "random_mentions", "random_tree", "split_evenly",
]  # fmt: skip

N_LAYERS, N_HEADS = 3, 5  # unequal primes: a swapped axis fails
N_MODES = 3  # in which heads are altered
N_SETS = 7  # of heads that are switched off at once
RELATIONS = ["nsubj", "obj", "nsubj:pass", "punct", "poss"]
TAGS = ["NOUN", "PROPN", "VERB", "PRON", "PUNCT"]
VOCABULARY = ["the", "boat", "sails", ".", ",", "home", "'s", "old"]


def make_example(seed: int, n_words: int | None = None) -> Example:
    """A sentence of known words with a random tree and random mentions."""
    rng = np.random.default_rng(seed)
    n_words = n_words or int(rng.integers(1, 9))
    return Example(
        f"made:{seed}",
        words=tuple(rng.choice(VOCABULARY, n_words).tolist()),
        tree=random_tree(rng, n_words),
        mentions=random_mentions(rng, n_words),
        sentences=(0,),
        tags=tuple(rng.choice(TAGS, n_words).tolist()),
    )


def make_pair(seed: int, n_words: int | None = None) -> Example:
    """A text with a target and random links between their words."""
    rng = np.random.default_rng(seed)
    sizes = [n_words or int(rng.integers(1, 9)) for _ in range(2)]
    text, target = (" ".join(rng.choice(VOCABULARY, size)) for size in sizes)
    pairs = np.argwhere(rng.random(sizes) < 0.3).tolist()
    links = tuple(Link(source, word, bool(rng.random() < 0.7)) for source, word in pairs)
    return Example(f"pair:{seed}", text=text, text_pair=target, links=links)


def random_mentions(rng: np.random.Generator, n_words: int) -> tuple[Mention, ...]:
    """Mentions anywhere, nested and crossing, of few things; what is known of them is random."""
    spans = []
    for start in range(n_words):
        if rng.random() < 0.7:
            end = int(rng.integers(start + 1, min(start + 4, n_words + 1)))
            spans.append((start, end, str(rng.integers(3)), int(rng.integers(start, end))))
    sizes = Counter(cluster for *_, cluster, _ in spans)
    return tuple(
        Mention(
            start,
            end,
            cluster,
            head,
            kind=str(rng.choice(KINDS)),
            number=[None, "singular", "plural"][rng.integers(3)],
            gender=[None, "masculine", "feminine"][rng.integers(3)],
            person=[None, "2", "3"][rng.integers(3)],
            is_singleton=sizes[cluster] == 1,
        )
        for start, end, cluster, head in spans
    )


def random_tree(rng: np.random.Generator, n_words: int) -> Tree:
    """A tree in which every word but the root hangs on one that was placed before it."""
    order = rng.permutation(n_words)
    heads = [ROOT] * n_words
    for index, word in enumerate(order[1:], start=1):
        heads[word] = int(order[rng.integers(index)])
    relations = rng.choice(RELATIONS, n_words).tolist()
    named = [r if h != ROOT else "root" for r, h in zip(relations, heads, strict=True)]
    return Tree(tuple(heads), tuple(named))


def split_evenly(word: str, place: int) -> int:
    """How many pieces a word has: every third word is split in two or three."""
    return 1 + place % 3 if place % 2 else 1


def encode_words(
    example: Example, pieces: Callable[[str, int], int] = split_evenly, n_closing: int = 1
) -> Encoding:
    """[CLS], the words in pieces, then [SEP]s."""
    return _encode(example, example.words or (example.text or "").split(), pieces, n_closing)


def encode_pair(example: Example, pieces: Callable[[str, int], int] = split_evenly) -> Encoding:
    """The text, and as its target what a decoder reads: [CLS] and the words in pieces."""
    target = _encode(example, (example.text_pair or "").split(), pieces, n_closing=0)
    return replace(encode_words(example, pieces), target=target)


def _encode(
    example: Example, words: Sequence[str], pieces: Callable[[str, int], int], n_closing: int
) -> Encoding:
    ids = [i for i, word in enumerate(words) for _ in range(pieces(word, i))]
    surfaces = ["[CLS]", *(words[i] for i in ids), *["[SEP]"] * n_closing]
    kinds = [TokenKind.CLS, *[TokenKind.TEXT] * len(ids), *[TokenKind.SEP] * n_closing]
    return Encoding(
        example=example,
        inputs={"input_ids": np.unique(surfaces, return_inverse=True)[1].astype(np.int64)},
        surfaces=tuple(surfaces),
        kinds=np.array(kinds, dtype=np.int64),
        word_ids=np.array([-1, *ids, *[-1] * n_closing], dtype=np.int64),
    )


def random_maps(encoding: Encoding, seed: int = 0) -> Tensor:
    """Attention that depends on the example alone: [layer, head, query, key], rows sum to 1."""
    rng = np.random.default_rng([encoding.example.key, seed])
    n_queries = len(encoding.target or encoding)
    scores = 3 * rng.standard_normal((N_LAYERS, N_HEADS, n_queries, len(encoding)))
    return torch.from_numpy(scores).softmax(-1)


def _made_losses(stacked: Tensor, batch: Batch) -> HeadSetLosses:
    """Losses that grow from set to set; a set of number n has the first n heads of layer 1."""
    n_layers, _, n_heads = stacked.shape[:3]
    numbers = torch.arange(N_SETS)
    losses = stacked.double().mean((0, 2, 3))[:, None] * (
        1 + numbers[:, None]
    )  # [example, set, token]
    sets = torch.zeros(N_SETS, n_layers, n_heads, dtype=torch.bool)
    sets[:, 0] = torch.arange(n_heads) < numbers[:, None]
    return HeadSetLosses(losses, losses < 1, sets, batch)


@dataclass(frozen=True)
class MadeSource(Source[Any]):
    """A source without a model: `maps` says what each example looks like inside.

    It can emit gradients and changes too: then they are the maps, or their diagonals; losses
    without sets of heads; or cross attention, from targets to texts (`make_pair`). `precision`
    rounds as a model would that computes in half precision; numbers leave as float32 then.
    """

    maps: Callable[[Encoding], Tensor] = random_maps
    pieces: Callable[[str, int], int] = split_evenly
    name: str = "made"
    n_layers: int = N_LAYERS
    n_heads: int = N_HEADS
    max_tokens: int = 512
    emits: Watch = Watch.ATTENTION
    precision: torch.dtype = torch.float64

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        encode = encode_pair if self.emits is Watch.CROSS_ATTENTION else encode_words
        return [encode(example, self.pieces) for example in examples]

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return Batch(tuple(encodings))

    def attend(self, batch: Batch, observe: Callable[[Any], None]) -> None:
        stacked = torch.stack([self.maps(encoding) for encoding in batch.encodings], dim=1)
        if self.precision is not torch.float64:
            stacked = stacked.to(self.precision).float()
        layers = range(len(stacked))
        if self.emits is Watch.HEAD_SETS:
            observe(_made_losses(stacked, batch))
            return
        for layer in reversed(layers) if self.emits is Watch.GRADIENT else layers:
            observe(self._show(layer, stacked[layer], batch))  # [example, head, query, key]

    def read(
        self,
        batch: Batch,
        readings: Collection[Reading],
        n_rows: int,
        observe: Callable[[Any], None],
    ) -> None:
        """As a model does that is read in slices: an analysis is shown no map at all."""

        def show(whole: Any) -> None:
            if not isinstance(whole, LayerAttention):
                return observe(whole)
            totals = {reading: reading.begin(whole) for reading in readings}
            for part in cut_maps(whole.weights, n_rows):
                for reading, so_far in totals.items():
                    reading.add(so_far, part)
            empty, finite = whole.weights.to("meta"), whole.is_finite()
            return observe(replace(whole, weights=empty, readings=totals, finite=finite))

        self.attend(batch, show)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "digest": "made"}

    def _show(
        self, layer: int, weights: Tensor, batch: Batch
    ) -> LayerAttention | LayerGradient | LayerChange | LayerCopying:
        if self.emits is Watch.GRADIENT:
            masks = weights[:, :, 0].sum(-1) - weights[:, :, -1, -1]
            return LayerGradient(layer, weights, batch, masks=masks)
        if self.emits is Watch.CHANGE:
            changes = weights.diagonal(dim1=-2, dim2=-1)[..., :1].repeat(1, 1, N_MODES)
            measured = torch.ones(weights.shape[1], dtype=torch.bool, device=weights.device)
            base = weights.new_ones(len(weights))
            return LayerChange(layer, changes, measured, base, "loss", batch)
        if self.emits is Watch.COPYING:
            above = (40 * weights[:, :, 0]).floor()  # [example, head, token]
            return LayerCopying(layer, above, 40 - above, 40, batch)
        if self.emits is Watch.CROSS_ATTENTION:
            full = LayerAttention.full(layer, weights, batch.target)
            kind, keys = AttentionKind.CROSS, batch
            return replace(full, kind=kind, key_batch=keys, n_layers=self.n_layers)
        return replace(LayerAttention.full(layer, weights, batch), n_layers=self.n_layers)
