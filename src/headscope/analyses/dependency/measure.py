"""Heads as dependency parsers: does a word attend most to its syntactic head? (paper, 4.2)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from headscope.analyses.dependency.gold import Gold, read_gold
from headscope.analyses.dependency.tables import (
    ALL_CONTENT,
    BY_MARK,
    DIRECTIONS,
    MARKED,
    NO_RULE,
    NULL,
    OFFSETS,
    POSSESSIVES,
    TABLES,
    correct_p,
    find_shared_heads,
    is_single,
    make_tables,
    pool_treebanks,
)
from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch, TokenKind
from headscope.data.reading import DerivedReading, Reading, is_compiled
from headscope.data.table import Tables
from headscope.data.words import (
    WordReading,
    check_query_pieces,
    first_word_option,
    query_pieces_option,
    special_weights,
    visible_words,
    word_weights,
    words_with_tokens,
)
from headscope.lazy import Tensor, torch
from headscope.options import option, require
from headscope.stats import accuracy
from headscope.stats.estimates import Summary
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums

__all__ = ["ALL_CONTENT", "BY_MARK", "DIRECTIONS", "MARKED", "Dependency", "is_single"]

NOTHING = -3  # the prediction of a word that attends to no other


class Prediction(NamedTuple):
    """The most attended other word of each word, or NOTHING, how much it gets, and how much the
    most attended special token gets."""

    words: Int[Tensor, "example head direction word"]
    weights: Float[Tensor, "example head direction word"]
    special: Float[Tensor, "example head direction word"]


class Parse(NamedTuple):
    """What each word predicts in a layer, and which arcs can be seen there."""

    words: Int[Tensor, "example head direction word"]
    is_lost: Bool[Tensor, "example head direction word"]  # a special token gets as much
    seen: Bool[Tensor, "example direction arc"]
    seen_by_mark: Bool[Tensor, "example direction arc"]  # from a possessor's 's


@dataclass(frozen=True)
class ParseReading(DerivedReading):
    """The parses of heads."""

    analysis: Dependency

    @property
    def of(self) -> tuple[Reading, ...]:
        return (WordReading(self.analysis.query_pieces),)

    def derive(self, layer: LayerAttention) -> Parse:
        visible = self.analysis.find_visible(layer)  # [example, word, other]
        predicted = predict_words(layer, visible, self.analysis.query_pieces)
        is_lost = predicted.weights <= predicted.special
        return Parse(predicted.words, is_lost, *self.analysis.find_seen(layer, visible))


class NullArcs(NamedTuple):
    """The arcs of a batch, and where each draw moves their two ends."""

    examples: Int[Tensor, " arc"]
    words: Int[Tensor, " arc"]  # the dependent that an arc really has
    dependents: Int[Tensor, "arc draw"]
    heads: Int[Tensor, "arc draw"]


@dataclass(frozen=True)
class Dependency(Analysis):
    """Each head as a parser without training: a word's most attended other word is its prediction.

    dependent-to-head reads the dependent's row, head-to-dependent its column. Every relation is
    scored, `all` words as the paper's code counts them (the root is always missed), and all but
    punctuation and root. For possessors the prediction of a following 's counts too. Words that
    the tokenizer drops cannot attend; arcs from or to them are left out. A word that attends to no
    other word, such as the first one in a decoder, predicts nothing. An arc is visible in a
    direction if the model's mask lets the one word look at the other; offsets predict visible
    words only.
    """

    coarse: bool = option(False, "Merge subtypes of relations: nsubj:pass into nsubj.")
    query_pieces: str = query_pieces_option()
    ignore_first_word: bool = first_word_option()
    null_arcs: int = option(
        20,
        "Also score N random draws in which arcs are moved within their sentence; 0: none.",
    )
    seed: int = 0  # of these draws; the engine sets it to the run's

    name = "dependency"
    needs = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    sums = {
        "correct": "*relation layer head direction", "visible": "*relation layer direction",
        "offset": "*relation direction offset", "count": "*relation", "length": "*relation",
        "lost": "*relation layer head direction",  # only while no special token competes
        "choice": "*relation layer head", "choices": "*relation",
        NULL: "*relation layer head direction draw",
    }  # fmt: skip
    labels = {"direction": DIRECTIONS, "offset": OFFSETS}
    tables = TABLES

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)
        require(self.null_arcs >= 0, "null_arcs", self.null_arcs, "0 or more")

    @property
    def reads(self) -> tuple[ParseReading, ...]:
        return (ParseReading(self),)

    def measure(self, seen: Readings) -> Mapping[str, Mapping[str, Tensor]]:
        """Arcs found by head and direction for each relation, what can be seen, and counts."""
        gold = read_gold(seen.batch, self.coarse)
        parse: Parse = seen[self.reads[0]]
        words = parse.words  # [example, layer, head, direction, word]
        heads = gold.heads[:, None, None, None]
        is_found = _take(words, gold.dependents) == heads  # [..., arc]
        by_word, by_mark = parse.seen, parse.seen_by_mark  # [example, layer, direction, arc]
        sums = {
            "correct": _count_found(is_found, lambda: _take(words, gold.marks) == heads, gold),
            "visible": _count_found(by_word, lambda: by_mark, gold),
            **_count_choices(words[:, :, :, 0], gold),
            **_measure_once(gold, by_word[:, 0], by_mark[:, 0]),
        }
        if _has_special(seen.batch) and ALL_CONTENT in gold.relations:
            is_content = gold.is_relation[..., gold.relations.index(ALL_CONTENT)]
            is_lost = is_found & _take(parse.is_lost, gold.dependents)
            is_lost = is_lost.to(is_content.dtype)
            sums["lost"] = {ALL_CONTENT: torch.einsum("elhda,ea->elhd", is_lost, is_content)}
        if self.null_arcs:
            sums[NULL] = _count_null(words, self._draw_null_arcs(seen.batch, gold), gold)
        return sums

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Arcs found minus arcs missed, by relation, head and direction."""
        names = [name.partition("/")[2] for name in values if name.startswith("correct/")]
        return accuracy.rank_groups(values, [name for name in names if is_single(name)])

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Every head on every relation, the offsets, and the best of both.

        `p_raw` tests the held-out difference, paired by bucket of documents; `p_value` is corrected
        by Holm. `chance_accuracy` is what the best of all heads finds of arcs that were moved to
        random places, and `chance_p_value` how often it does as well as here.
        """
        return make_tables(sums)

    def join_corpora(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """Of several treebanks: p-values corrected over all of them, and relations summed up."""
        best = tables["dependency-best"]
        if "treebank" not in best:
            return dict(tables)
        best = best.assign(p_value=correct_p(best["relation"], best["p_raw"]))
        return {
            **tables,
            "dependency-best": best,
            "dependency-treebanks": pool_treebanks(best),
            "dependency-languages": find_shared_heads(tables["dependency"], best),
        }

    def _draw_null_arcs(self, batch: Batch, gold: Gold) -> NullArcs:
        """Each arc moved to random places of its sentence, with its relation and length."""
        from headscope.kernels.map_sums import move_arcs  # numba: only where it is used

        heads = gold.heads.cpu().numpy()  # of words first, and only these are moved
        is_arc = (gold.is_relation[..., 0].cpu().numpy() > 0) & (heads >= 0)
        examples, dependents = np.nonzero(is_arc)
        lengths = heads[examples, dependents] - dependents  # [arc]
        draws = [
            np.random.Generator(np.random.Philox(key=[self.seed, encoding.example.key])).random(
                (n_arcs, self.null_arcs)
            )
            for encoding, n_arcs in zip(batch.encodings, is_arc.sum(axis=1).tolist(), strict=True)
        ]
        moved = np.empty((len(examples), self.null_arcs), np.int64)  # [arc, draw]
        move_arcs(words_with_tokens(batch), examples, lengths, np.concatenate(draws), moved)
        parts = (examples, dependents, moved, moved + lengths[:, None])
        return NullArcs(*map(torch.from_numpy, parts))

    def find_seen(self, layer: LayerAttention, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Which arcs can be seen; found once for layers that see the same."""

        def build() -> tuple[tuple[Tensor, Tensor], Tensor]:
            # layer.visible is kept, so that its id stays its own
            return _find_seen(visible, read_gold(layer.batch, self.coarse)), layer.visible

        return layer.batch.remember(("seen", self, id(layer.visible)), build)[0]

    def find_visible(self, layer: LayerAttention) -> Bool[Tensor, "example word other"]:
        """Which other words each word may look at."""
        key = ("visible", self, id(layer.visible))
        build = lambda: (self._mask_words(layer), layer.visible)  # noqa: E731
        return layer.batch.remember(key, build)[0]

    def _mask_words(self, attention: LayerAttention) -> Bool[Tensor, "example word other"]:
        visible = visible_words(attention, self.query_pieces)
        itself = torch.eye(visible.shape[1], dtype=torch.bool, device=visible.device)
        visible = visible & ~itself
        if self.ignore_first_word:
            visible[:, :, 0] = False
        return visible


def _has_special(batch: Batch) -> bool:
    def build() -> bool:  # on the host: no device waits
        return any((encoding.kinds != TokenKind.TEXT).any() for encoding in batch.encodings)

    return batch.remember("has special", build)


def predict_words(
    attention: LayerAttention,
    visible: Bool[Tensor, "example word other"],
    query_pieces: str = "mean",
) -> Prediction:
    """The most attended word of each row, and of each column; ties go to the first."""
    pooled = attention.read(WordReading(query_pieces)).weights  # [example, head, unit, other]
    if is_compiled(pooled):
        return _predict_compiled(pooled, visible)
    scores = word_weights(attention, query_pieces).masked_fill(~visible[:, None], 0.0)
    best = [part.max(-1) for part in (scores, scores.mT)]
    weights = torch.stack([part.values for part in best], dim=2)
    words = torch.stack([part.indices for part in best], dim=2)
    special = torch.zeros_like(weights)
    to_special, from_special = special_weights(attention, query_pieces)
    if to_special.shape[-1]:
        special = torch.stack([to_special.amax(-1), from_special.amax(-2)], dim=2)
    return Prediction(words.masked_fill(weights <= 0, NOTHING), weights, special)


def _predict_compiled(
    pooled: Float[Tensor, "example head unit other"], visible: Bool[Tensor, "example word other"]
) -> Prediction:
    from headscope.kernels.map_sums import find_largest

    n_examples, n_heads, n_words = *pooled.shape[:2], visible.shape[1]
    shape = (n_examples, n_heads, len(DIRECTIONS), n_words)
    prediction = Prediction(
        torch.empty(shape, dtype=torch.int64), torch.empty(shape), torch.zeros(shape)
    )
    find_largest(pooled.numpy(), n_words, visible.numpy(), *(part.numpy() for part in prediction))
    return prediction


def _find_seen(
    visible: Bool[Tensor, "example word other"], gold: Gold
) -> tuple[Bool[Tensor, "example direction arc"], Bool[Tensor, "example direction arc"]]:
    """Whether each arc can be seen, from the dependent and from the head; the second for its 's."""
    examples = torch.arange(len(visible), device=visible.device)[:, None]
    heads, is_arc = gold.heads.clamp(min=0), (gold.heads >= 0)[:, None]
    seen = [
        torch.stack([visible[examples, w, heads], visible[examples, heads, w]], dim=1) & is_arc
        for w in (gold.dependents, gold.marks)
    ]
    return seen[0], seen[1]


def _take(words: Tensor, places: Int[Tensor, "example arc"]) -> Tensor:
    """What the words at these places predict: `[example, layer, head, direction, arc]`."""
    return words.gather(-1, places[:, None, None, None].expand(*words.shape[:4], -1))


def _count_found(
    is_found: Bool[Tensor, "example ... word"],
    find_by_mark: Callable[[], Bool[Tensor, "example ... word"]],
    gold: Gold,
) -> dict[str, Tensor]:
    """How many words of each relation are found; a possessor also by its following 's."""
    counts = _by_relation(is_found, gold)
    possessives = [name for name in POSSESSIVES if name in gold.relations]
    if possessives:
        by_mark = find_by_mark()
        either, marked = (_by_relation(hits, gold) for hits in (is_found | by_mark, by_mark))
    for name in possessives:
        counts[NO_RULE.format(name)] = counts[name]
        counts[name] = either[name]
        if MARKED.format(name) in gold.relations:
            counts[BY_MARK.format(name)] = marked[MARKED.format(name)]
    return counts


def _by_relation(numbers: Tensor, gold: Gold) -> dict[str, Tensor]:
    """The sums over the words of each relation: `numbers[example, ..., word]`."""
    n_examples, *middle, n_words = numbers.shape
    flat = numbers.reshape(n_examples, -1, n_words).to(gold.is_relation.dtype)
    sums = (gold.is_relation.mT @ flat.mT).reshape(n_examples, -1, *middle)  # [example, relation]
    return dict(zip(gold.relations, sums.unbind(1), strict=True))


def _count_choices(
    rows: Int[Tensor, "example layer head word"], gold: Gold
) -> dict[str, dict[str, Tensor]]:
    """How often a head word's own row chooses its dependent, where it has one of the relation."""
    heads = gold.heads.clamp(min=0)  # [example, arc]
    is_single_relation = [is_single(name) for name in gold.relations]
    names = [name for name in gold.relations if is_single(name)]
    members = gold.is_relation[..., is_single_relation] * (gold.heads >= 0)[..., None]
    index = heads[..., None].expand_as(members)
    siblings = torch.zeros_like(members).scatter_add(1, index, members).gather(1, index)
    is_only = members * (siblings == 1)  # [example, arc, relation]
    chosen = rows.gather(-1, heads[:, None, None].expand(*rows.shape[:3], -1))
    is_chosen = (chosen == gold.dependents[:, None, None]).to(is_only.dtype)
    hits = torch.einsum("elha,ear->relh", is_chosen, is_only)
    counts = is_only.sum(1).unbind(1)  # each [example]
    return {
        "choice": dict(zip(names, hits, strict=True)),
        "choices": dict(zip(names, counts, strict=True)),
    }


def _count_null(
    words: Int[Tensor, "example layer head direction word"], drawn: NullArcs, gold: Gold
) -> dict[str, Tensor]:
    """How many moved arcs of each relation the batch has, by layer, head, direction and draw."""
    from headscope.kernels.map_sums import count_moved  # numba: only where it is used

    n_words, n_draws = words.shape[-1], drawn.heads.shape[1]
    by_word = words.permute(0, 4, 1, 2, 3).to("cpu", torch.int16)  # [example, word, ...]
    predicted = by_word.reshape(len(words) * n_words, -1)  # [row, cell]
    rows = drawn.examples[:, None] * n_words + drawn.dependents  # [arc, draw]
    arcs, relations = gold.is_relation.cpu()[drawn.examples, drawn.words].nonzero(as_tuple=True)
    counts = torch.zeros(len(gold.relations), n_draws, predicted.shape[1])
    parts = (predicted, rows, drawn.heads.to(torch.int16), arcs, relations, counts)
    count_moved(*(part.contiguous().numpy() for part in parts))
    shaped = counts.mT.reshape(-1, *words.shape[1:4], n_draws)
    return {name: shaped[i][None] for i, name in enumerate(gold.relations)}


def _measure_once(
    gold: Gold,
    is_seen: Bool[Tensor, "example direction word"],
    by_mark: Bool[Tensor, "example direction word"],
) -> dict[str, dict[str, Tensor]]:
    """What is the same in all layers: counts and lengths of arcs, and what each offset finds."""
    offsets = torch.tensor(OFFSETS, device=gold.heads.device)[:, None]
    heads = gold.heads[:, None]
    # [example, direction, offset, arc]
    is_found, is_found_by_mark = (
        (words[:, None] + offsets == heads)[:, None] & seen[:, :, None]
        for words, seen in ((gold.dependents, is_seen), (gold.marks, by_mark))
    )
    is_word = torch.ones_like(gold.heads, dtype=torch.bool)
    length = (gold.dependents - gold.heads).abs().where(gold.heads >= 0, 0)  # [example, arc]
    return {
        "offset": _count_found(is_found, lambda: is_found_by_mark, gold),
        "count": _count_found(is_word, lambda: is_word, gold),
        "length": _by_relation(length, gold),
    }
