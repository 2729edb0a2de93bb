"""Cross attention as a word aligner, against gold alignments: the alignment error rate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import Analysis, Annotation, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Encoding
from headscope.data.table import empty_tables, head_axes, tidy_table
from headscope.stats.ranking import Values
from headscope.stats.tally import Tally

__all__ = ["WordAlignment"]

STEPS = ["output", "input"]  # the row that writes a word, and the one that has read it


class Gold(NamedTuple):
    """The words and links of a batch; examples with fewer words than the most are padded."""

    keys: Float[Tensor, "example key source"]  # 1 where a token is a piece of a source word
    rows: Float[Tensor, "example step target query"]  # the rows of target words, as means
    is_no_choice: Bool[Tensor, "example source"]
    is_linked: Bool[Tensor, "example step target"]  # words that have rows: each gets one link
    sure: Bool[Tensor, "example target source"]
    possible: Bool[Tensor, "example target source"]  # sure ones too
    diagonal: Tensor  # [example, target]: the source word at the same share of the way


@dataclass(frozen=True)
class WordAlignment(Analysis):
    """Each target word is linked to the source word its row attends to most.

    Words are what spaces part: sums over the pieces attended to, means over the rows of a word's
    pieces. With A the links of a head, S the sure and P the possible gold links (S among them),
    the alignment error rate is 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney 2003).
    Special tokens are no candidates. `output` takes the rows that predict a word, `input` those
    that have just read it.
    """

    name: ClassVar[str] = "word-alignment"
    watches: ClassVar[Watch] = Watch.CROSS_ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset({Annotation.TARGETS, Annotation.ALIGNMENTS})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "word-alignment": (
            *("layer", "head", "step", "links", "aer", "low", "high"),
            *("precision", "recall", "diagonal_aer"),
        )
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Links that are sure and that are possible, by example, head and step; and how many."""
        batch, weights = attention.batch, attention.weights
        gold = batch.remember("alignment", lambda: _read_gold(attention))
        n_examples, n_steps, n_words, n_rows = gold.rows.shape
        to_words = weights @ gold.keys[:, None].to(weights.dtype)  # [example, head, query, source]
        rows = gold.rows.reshape(n_examples, 1, n_steps * n_words, n_rows).to(weights.dtype)
        scores = (rows @ to_words).masked_fill(gold.is_no_choice[:, None, None], -1.0)
        found = scores.argmax(-1).reshape(n_examples, -1, n_steps, n_words)
        # found: [example, head, step, target]
        values = _count_hits(found, gold)
        n_links = gold.is_linked.sum(-1)[:, None].double()  # [example, 1, step]
        n_sure = gold.sure.sum((1, 2))[:, None, None].double()  # [example, 1, 1]
        values |= {"links": n_links, "gold": n_sure.expand_as(n_links)}
        if attention.layer == 0:
            diagonal = gold.diagonal[:, None, None].expand(-1, 1, n_steps, -1)
            hits = _count_hits(diagonal, gold)
            values |= {f"diagonal_{name}": hit for name, hit in hits.items()}
        return values

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """1 minus the error rate, by step."""
        size = values["links"] + values["gold"]  # [example, layer, 1, step]
        found = values["sure"] + values["possible"]  # [example, layer, head, step]
        return {"aligned": np.where(size > 0, found / np.maximum(size, 1), np.nan)}

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """The error rate of every head, beside that of the diagonal."""
        if not tally:
            return empty_tables(self.tables)
        totals = Tally(dict(tally.totals))
        sums = totals.totals
        sums["found"], sums["size"] = sums["sure"] + sums["possible"], sums["links"] + sums["gold"]
        sums["diagonal"] = sums["diagonal_sure"] + sums["diagonal_possible"]
        sums["first_size"] = sums["size"][:, :1]  # the same in every layer
        share = totals.ratio("found", "size")  # [layer, head, step]
        axes = {**head_axes(*share.value.shape[:2]), "step": STEPS}
        n_links = sums["links"].sum(axis=0)  # [layer, 1, step]
        values = {
            "links": n_links.round().astype(int),
            "aer": 1 - share.value,
            "low": 1 - share.high,
            "high": 1 - share.low,
            "precision": totals.ratio("possible", "links").value,
            "recall": totals.ratio("sure", "gold").value,
            "diagonal_aer": 1 - totals.ratio("diagonal", "first_size").value,
        }
        return {self.name: tidy_table(axes, values)}


def _count_hits(found: Tensor, gold: Gold) -> dict[str, Tensor]:
    """How many links are in the gold alignment, by example, head and step."""
    n_heads, n_steps = found.shape[1:3]
    hits = {}
    for name, links in (("sure", gold.sure), ("possible", gold.possible)):
        wide = links[:, None, None].expand(-1, n_heads, n_steps, -1, -1)
        is_hit = wide.gather(-1, found[..., None])[..., 0]  # [example, head, step, target]
        hits[name] = (is_hit & gold.is_linked[:, None]).sum(-1).double()
    return hits


def _read_gold(attention: LayerAttention) -> Gold:
    """The words and links of a batch. Links of words without tokens do not count, nor do examples
    without links."""
    pairs = list(zip(attention.keys.encodings, attention.batch.encodings, strict=True))
    counts = np.array([_count_words(source) for source, _ in pairs])  # [example, side]
    n_sources, n_targets = counts.max(axis=0)
    keys = np.stack([_members(source.word_ids, n_sources).T for source, _ in pairs])
    read = np.stack([_members(target.word_ids, n_targets) for _, target in pairs])
    written = np.roll(read, -1, axis=-1)  # nothing is read in the first row, so none comes round
    rows = np.stack([written, read], axis=1)  # [example, step, target, query]
    has_source = keys.sum(axis=1) > 0  # [example, source]
    has_target = read.sum(axis=-1) > 0  # [example, target]
    is_scored = [
        target.example.links is not None and row.any()
        for row, (_, target) in zip(has_source, pairs, strict=True)
    ]
    is_linked = (rows.sum(axis=-1) > 0) & np.array(is_scored)[:, None, None]
    sure, possible = np.zeros((2, len(pairs), n_targets, n_sources), bool)
    for i, (_, target) in enumerate(pairs):
        for source_word, target_word, is_sure in target.example.links or ():
            if has_source[i, source_word] and has_target[i, target_word]:
                sure[i, target_word, source_word] |= is_sure
                possible[i, target_word, source_word] = True
    steps = (np.arange(n_targets) + 0.5) * counts[:, :1] / np.maximum(counts[:, 1:], 1)
    diagonal = np.minimum(steps.astype(int), np.maximum(counts[:, :1] - 1, 0))
    n_pieces = np.maximum(rows.sum(-1, keepdims=True), 1)
    parts = (keys, rows / n_pieces, ~has_source, is_linked, sure, possible, diagonal)
    return Gold(*(torch.from_numpy(part).to(attention.batch.device) for part in parts))


def _members(word_ids: NDArray[np.int64], n_words: int) -> NDArray[np.bool_]:
    """Which tokens are pieces of which word: [word, token]."""
    return np.equal(word_ids, np.arange(n_words)[:, None])


def _count_words(encoding: Encoding) -> tuple[int, int]:
    example = encoding.example
    return len((example.text or "").split()), len((example.text_pair or "").split())
