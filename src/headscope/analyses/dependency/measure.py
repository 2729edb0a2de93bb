"""Heads as dependency parsers: does a word attend most to its syntactic head? (paper, 4.2)

The totals are `correct/RELATION` [bucket, layer, head, direction], `offset/RELATION` [bucket, 1,
direction, offset], `visible/RELATION` [bucket, layer, 1, direction], `length/RELATION` and
`count/RELATION` [bucket, 1, 1], and `lost to special` as `correct`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.contracts import Annotation, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, TokenKind
from headscope.data.table import Tables, empty_tables, head_axes, tidy_table
from headscope.data.tree import ROOT
from headscope.data.words import (
    check_query_pieces,
    first_word_option,
    pool_words,
    query_pieces_option,
    visible_words,
    word_weights,
    words_with_tokens,
)
from headscope.options import option, require
from headscope.stats import accuracy
from headscope.stats.bucket import N_BUCKETS, N_FOLDS, fold_of
from headscope.stats.heldout import choose_best
from headscope.stats.ranking import Values
from headscope.stats.tally import PLAIN, Tally
from headscope.stats.tests import compare, holm, max_null_p, pool_random_effects

__all__ = [
    "ALL_CONTENT", "BY_MARK", "DIRECTIONS", "MARKED", "Dependency", "Head", "best_heads",
    "is_single", "relation_name",
]  # fmt: skip

DIRECTIONS = ["dependent-to-head", "head-to-dependent"]
OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL, ALL_CONTENT = "all", "all (no punct or root)"
POSSESSIVES = ("poss", "nmod:poss")  # Stanford's and Universal Dependencies' name
POSSESSIVE_MARKS = ("'s", "’s", "'", "’")
NO_RULE, MARKED, BY_MARK = "{} (no 's rule)", "{} (before 's)", "{} (by the 's)"
LOST = "lost to special"  # arcs of ALL_CONTENT that are found only while no special token competes
NULL = f"{PLAIN}null/"  # begins the names of totals of moved arcs
POOLED = ("", "_low", "_high", "_spread", "_predicted_low", "_predicted_high")
TREEBANK_COLUMNS = (
    *("relation", "treebanks"),
    *(f"{name}{part}" for name in ("heldout_accuracy", "heldout_difference") for part in POOLED),
)
NO_WORD = -2  # where an example has fewer words than the longest
NOTHING = -3  # the prediction of a word that attends to no other
MIN_COUNT = 20  # words of a relation, for its best head to be combined with others

DIRECTION_COLUMNS = (
    *("relation", "count", "dependent_to_head", "head_to_dependent"),
    *("difference", "low", "high", "p_value"),
)

Head = tuple[int, int, int]  # layer, head, direction


class Gold(NamedTuple):
    """The trees of a batch as arrays."""

    heads: Int[Tensor, "example word"]  # ROOT for the root, NO_WORD for padding
    marks: Int[Tensor, "example word"]  # of a possessor its 's, of other words themselves
    relations: list[str]
    is_relation: Float[Tensor, "example word relation"]


class Prediction(NamedTuple):
    """The most attended other word of each word, or NOTHING, and how much it gets."""

    words: Int[Tensor, "example head direction word"]
    weights: Float[Tensor, "example head direction word"]


class NullArcs(NamedTuple):
    """The arcs of a batch, and where each draw moves their two ends."""

    examples: Int[Tensor, " arc"]
    words: Int[Tensor, " arc"]  # the dependent that an arc really has
    dependents: Int[Tensor, "arc draw"]
    heads: Int[Tensor, "arc draw"]


@dataclass(frozen=True)
class Dependency:
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
        0, "Also score N draws of arcs moved to random places of their sentence, for comparison."
    )
    seed: int = 0  # of these draws; the engine sets it to the run's

    name: ClassVar[str] = "dependency"
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "dependency": (
            *("relation", "direction", "layer", "head", *accuracy.SCORE_COLUMNS),
            *("visible_share", "visible_accuracy"),
        ),
        "dependency-offset": ("relation", "direction", "offset", *accuracy.SCORE_COLUMNS),
        "dependency-best": (
            *("relation", *accuracy.BEST_HEAD_COLUMNS, "offset", "baseline_accuracy"),
            *(*accuracy.DIFFERENCE_COLUMNS, "p_value", "chance_accuracy", "chance_p_value"),
            *("visible_share", "visible_accuracy"),
        ),
        "dependency-special": (
            *("direction", "layer", "head", "accuracy", "with_special"),
            *("difference", "low", "high"),
        ),
        "dependency-length": ("relation", "words", "low", "high"),
        "dependency-directions": DIRECTION_COLUMNS,
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)
        require(self.null_arcs >= 0, "null_arcs", self.null_arcs, "0 or more")

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Arcs found by example, head and direction, for each relation; counts and offsets once."""
        batch = attention.batch
        gold = batch.remember(("gold", self), lambda: self._read_trees(batch))
        visible = self._find_visible(attention)  # [example, word, other]
        found = predict_words(attention, visible, self.query_pieces)
        heads, marks = gold.heads[:, None, None], gold.marks[:, None, None].expand_as(found.words)
        is_found = found.words == heads  # [example, head, direction, word]
        by_mark = found.words.gather(-1, marks) == heads
        values = _count_found("correct", is_found, by_mark, gold)
        special = weigh_special(attention, self.query_pieces)
        if special is not None and ALL_CONTENT in gold.relations:
            is_content = gold.is_relation[..., gold.relations.index(ALL_CONTENT)]
            is_lost = (is_found & (found.weights <= special)).to(is_content.dtype)
            values[LOST] = (is_lost * is_content[:, None, None]).sum(-1)
        key = (self, attention.reach)
        by_word, by_mark = batch.remember(("seen", *key), lambda: _find_seen(visible, gold))
        values |= batch.remember(
            ("count seen", *key),
            lambda: _count_found("visible", by_word[:, None], by_mark[:, None], gold),
        )
        if self.null_arcs:
            drawn = batch.remember(("null arcs", self), lambda: self._draw_null_arcs(batch, gold))
            values |= _count_null(found.words, drawn, gold)
        if attention.layer == 0:
            values |= _measure_once(gold, by_word, by_mark)
        return values

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Arcs found minus arcs missed, by relation, head and direction."""
        names = [name.partition("/")[2] for name in values if name.startswith("correct/")]
        return accuracy.rank_groups(values, [name for name in names if is_single(name)])

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head on every relation, the offsets, and the best of both.

        `p_raw` tests the held-out difference, paired by bucket of documents; `p_value` is corrected
        by Holm. `chance_accuracy` is what the best of all heads finds of arcs that were moved to
        random places, and `chance_p_value` how often it does as well as here.
        """
        relations = _list_relations(tally)
        if not relations:
            return empty_tables(self.tables)
        n_layers, n_heads = tally.totals[f"correct/{relations[0]}"].shape[1:3]
        heads = {**head_axes(n_layers, n_heads), "direction": DIRECTIONS}
        offsets: dict[str, Sequence[Any]] = {"layer": [1], "direction": DIRECTIONS}
        offsets["offset"] = OFFSETS
        every = _table_by_relation(tally, "correct", heads)
        for column, ratio in {
            "visible_share": ("visible", "count"),
            "visible_accuracy": ("correct", "visible"),
        }.items():
            every[column] = _ratios(tally, *ratio, (n_layers, n_heads, len(DIRECTIONS)))
        columns = ["relation", "layer", "head", "direction", "visible_share", "visible_accuracy"]
        rows = [_best_row(tally, relation) for relation in relations]
        best = accuracy.best_table(rows, self.tables["dependency-best"][: -len(columns[4:])])
        best["p_value"] = holm(best["p_raw"].to_numpy(dtype=float))
        tables = {
            "dependency": every,
            "dependency-offset": _table_by_relation(tally, "offset", offsets),
            "dependency-best": best.merge(every[columns], how="left"),
            "dependency-special": _special_table(tally, heads),
            "dependency-length": _length_table(tally),
            "dependency-directions": _direction_table(tally, relations),
        }
        return {name: table[list(self.tables[name])] for name, table in tables.items()}

    def join_corpora(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """Of several treebanks: p-values corrected over all of them, and relations summed up."""
        best = tables["dependency-best"]
        if "treebank" not in best:
            return dict(tables)
        best = best.assign(p_value=holm(best["p_raw"].to_numpy(dtype=float)))
        return {**tables, "dependency-best": best, "dependency-treebanks": _pool_treebanks(best)}

    def add_untrained(
        self, tables: Tables, tally: Tally, untrained: Sequence[Tally]
    ) -> dict[str, pd.DataFrame]:
        """The held-out accuracy of untrained models' best heads beside that of the model's."""
        best = tables["dependency-best"]
        rows = [
            accuracy.untrained_columns(
                [draw.totals[f"correct/{relation}"] for draw in (tally, *untrained)],
                tally.totals[f"count/{relation}"][:, 0, 0],
            )
            for relation in best["relation"]
        ]
        return {**tables, "dependency-best": best.join(pd.DataFrame(rows, index=best.index))}

    def _draw_null_arcs(self, batch: Batch, gold: Gold) -> NullArcs:
        """Each arc moved to random places of its sentence, with its relation and length."""
        has_tokens, heads = words_with_tokens(batch), gold.heads.cpu().numpy()
        examples, dependents = np.nonzero(
            (gold.is_relation[..., 0].cpu().numpy() > 0) & (heads >= 0)
        )
        moved = np.zeros((len(examples), self.null_arcs), np.int64)  # [arc, draw]
        for i, encoding in enumerate(batch.encodings):
            bits = np.random.Philox(key=[self.seed, encoding.example.key])
            generator = np.random.Generator(bits)
            for arc in np.flatnonzero(examples == i):
                length = heads[i, dependents[arc]] - dependents[arc]
                words = np.flatnonzero(has_tokens[i])
                fits = words[np.isin(words + length, words)]
                moved[arc] = generator.choice(fits, self.null_arcs)
        lengths = heads[examples, dependents] - dependents
        parts = (examples, dependents, moved, moved + lengths[:, None])
        return NullArcs(*(torch.from_numpy(part).to(batch.device) for part in parts))

    def _read_trees(self, batch: Batch) -> Gold:
        has_tokens = words_with_tokens(batch)
        heads = np.full(has_tokens.shape, NO_WORD)
        marks = np.broadcast_to(np.arange(has_tokens.shape[1]), has_tokens.shape).copy()
        members: dict[str, Bool[np.ndarray, "example word"]] = {
            ALL: np.zeros(has_tokens.shape, bool)  # there, even where no word has a token
        }
        for i, encoding in enumerate(batch.encodings):
            words, tree = encoding.example.words or (), encoding.example.tree
            assert tree is not None  # `needs` saw to it
            heads[i, : len(words)] = tree.heads
            for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
                if not has_tokens[i, word] or (head != ROOT and not has_tokens[i, head]):
                    continue
                names = [ALL]
                if head != ROOT:
                    is_content = relation_name(relation, coarse=True) != "punct"
                    names += [*[ALL_CONTENT] * is_content, relation_name(relation, self.coarse)]
                is_possessor = names[-1] in POSSESSIVES and word + 1 < len(words)
                if is_possessor and words[word + 1] in POSSESSIVE_MARKS and has_tokens[i, word + 1]:
                    marks[i, word] = word + 1
                    names.append(MARKED.format(names[-1]))
                for name in names:
                    members.setdefault(name, np.zeros(has_tokens.shape, bool))[i, word] = True
        is_relation = np.stack(list(members.values()), axis=-1)  # [example, word, relation]
        return Gold(
            heads=torch.from_numpy(heads).to(batch.device),
            marks=torch.from_numpy(marks).to(batch.device),
            relations=list(members),
            is_relation=torch.from_numpy(is_relation).float().to(batch.device),
        )

    def _find_visible(self, attention: LayerAttention) -> Bool[Tensor, "example word other"]:
        """Which other words each word may look at."""
        batch = attention.batch

        def find() -> Tensor:
            visible = visible_words(attention, self.query_pieces)
            itself = torch.eye(visible.shape[1], dtype=torch.bool, device=batch.device)
            visible = visible & ~itself
            if self.ignore_first_word:
                visible[:, :, 0] = False
            return visible

        return batch.remember(("visible", self, attention.reach), find)


def is_single(relation: str) -> bool:
    """Whether it is a relation of the treebank: no sum over several, and not without its rule.

    >>> is_single("nmod:poss"), is_single("nmod:poss (no 's rule)"), is_single("all")
    (True, False, False)
    """
    return relation != ALL and " (" not in relation


def relation_name(relation: str, coarse: bool) -> str:
    """The relation as it is counted: whole, or without its subtype.

    >>> relation_name("nsubj:pass", coarse=True)
    'nsubj'
    """
    return relation.partition(":")[0] if coarse else relation


def predict_words(
    attention: LayerAttention,
    visible: Bool[Tensor, "example word other"],
    query_pieces: str = "mean",
) -> Prediction:
    """The most attended word of each row, and of each column; ties go to the first."""
    scores = word_weights(attention, query_pieces).masked_fill(~visible[:, None], 0.0)
    turned = scores.transpose(-1, -2).contiguous()  # torch finds maxima fastest along rows
    best = [part.max(-1) for part in (scores, turned)]
    weights = torch.stack([part.values for part in best], dim=2)
    words = torch.stack([part.indices for part in best], dim=2)
    return Prediction(words.masked_fill(weights <= 0, NOTHING), weights)


def weigh_special(
    attention: LayerAttention, query_pieces: str
) -> Float[Tensor, "example head direction word"] | None:
    """The largest weight between each word and a special token, to it and from it; None: no such
    token."""
    batch = attention.batch
    is_special = batch.kinds != TokenKind.TEXT  # [example, token]
    if not is_special.any():
        return None
    pooling = pool_words(batch, query_pieces)
    weights = attention.weights
    keys, queries = pooling.keys.to(weights.dtype), pooling.queries.to(weights.dtype)
    n_special = int(is_special.sum(-1).max())
    order = is_special.int().argsort(dim=-1, descending=True, stable=True)[:, :n_special]
    is_there = is_special.gather(1, order)[:, None, :, None]  # [example, 1, special, 1]
    examples = torch.arange(len(batch), device=batch.device)[:, None]
    to_special = weights.transpose(1, 3)[examples, order].transpose(1, 3)  # [e, head, query, s]
    from_special = weights.transpose(1, 2)[examples, order].transpose(1, 2)  # [e, head, s, key]
    rows = queries[:, None] @ to_special  # [example, head, word, special]
    columns = from_special @ keys[:, None]  # [example, head, special, word]
    both = torch.stack([rows.transpose(-1, -2), columns], dim=2)  # [e, head, direction, s, word]
    return both.masked_fill(~is_there[:, :, None], 0.0).amax(3)


def _find_seen(
    visible: Bool[Tensor, "example word other"], gold: Gold
) -> tuple[Bool[Tensor, "example direction word"], Bool[Tensor, "example direction word"]]:
    """Whether each arc can be seen, from the dependent and from the head; the second for its 's."""
    examples = torch.arange(len(visible), device=visible.device)[:, None]
    heads, is_arc = gold.heads.clamp(min=0), (gold.heads >= 0)[:, None]
    words = torch.arange(visible.shape[1], device=visible.device).expand_as(heads)
    seen = [
        torch.stack([visible[examples, w, heads], visible[examples, heads, w]], dim=1) & is_arc
        for w in (words, gold.marks)
    ]
    return seen[0], seen[1]


def _count_found(
    kind: str, is_found: Bool[Tensor, "..."], by_mark: Bool[Tensor, "..."], gold: Gold
) -> dict[str, Tensor]:
    """How many words of each relation are found; a possessor also `by_mark`, its following 's."""
    values = _by_relation(kind, is_found, gold)
    possessives = [name for name in POSSESSIVES if name in gold.relations]
    if possessives:
        either, marked = (_by_relation(kind, f, gold) for f in (is_found | by_mark, by_mark))
    for name in possessives:
        values[f"{kind}/{NO_RULE.format(name)}"] = values[f"{kind}/{name}"]
        values[f"{kind}/{name}"] = either[f"{kind}/{name}"]
        if MARKED.format(name) in gold.relations:
            values[f"{kind}/{BY_MARK.format(name)}"] = marked[f"{kind}/{MARKED.format(name)}"]
    return values


def _by_relation(kind: str, numbers: Tensor, gold: Gold) -> dict[str, Tensor]:
    """The sums over the words of each relation: `numbers[example, ..., word]`."""
    n_examples, *middle, n_words = numbers.shape
    flat = numbers.reshape(n_examples, -1, n_words).to(gold.is_relation.dtype)
    sums = (flat @ gold.is_relation).reshape(n_examples, *middle, -1)  # [..., relation]
    return {f"{kind}/{name}": sums[..., i] for i, name in enumerate(gold.relations)}


def _count_null(
    found: Int[Tensor, "example head direction word"], drawn: NullArcs, gold: Gold
) -> dict[str, Tensor]:
    """How many moved arcs of each relation are found, by example, head, direction and draw."""
    examples = drawn.examples[:, None].expand_as(drawn.dependents)
    predicted = found[examples, :, :, drawn.dependents]  # [arc, draw, head, direction]
    is_found = (predicted == drawn.heads[:, :, None, None]).to(gold.is_relation.dtype)
    relations = gold.is_relation[drawn.examples, drawn.words]  # [arc, relation]
    in_example = torch.nn.functional.one_hot(drawn.examples, len(found)).to(relations)
    counts = torch.einsum("ae,ar,adhx->erhxd", in_example, relations, is_found)
    return {f"{NULL}{name}": counts[:, i] for i, name in enumerate(gold.relations)}


def _chance(tally: Tally, relation: str, accuracy: float, count: float) -> dict[str, float]:
    """What the best of all heads finds of moved arcs, and how often it is as good as here."""
    total = tally.totals.get(f"{NULL}{relation}")  # [1, layer, head, direction, draw]
    if total is None or relation in POSSESSIVES:  # whose rule for 's was not drawn
        return {"chance_accuracy": np.nan, "chance_p_value": np.nan}
    best = total[0].max(axis=(0, 1, 2)) / count  # [draw]
    return {"chance_accuracy": best.mean(), "chance_p_value": max_null_p(accuracy, best)}


def _pool_treebanks(best: pd.DataFrame) -> pd.DataFrame:
    """For each relation of two treebanks or more: mean, spread, and what to expect of another."""
    rows = []
    for relation, found in best.groupby("relation", sort=False):
        known = found[found["difference_error"] > 0]
        if len(known) > 1:
            accuracy = known["heldout_accuracy"].to_numpy(float)
            errors = np.sqrt(accuracy * (1 - accuracy) / known["effective"].to_numpy(float))
            gains = known["heldout_difference"], known["difference_error"]
            parts = [
                pool_random_effects(accuracy, np.maximum(errors, known["difference_error"].min())),
                pool_random_effects(*(column.to_numpy(float) for column in gains)),
            ]
            flat = [
                n for p in parts for n in (*p.mean, p.spread, p.predicted_low, p.predicted_high)
            ]
            rows.append((relation, len(known), *flat))
    return pd.DataFrame(rows, columns=list(TREEBANK_COLUMNS))


def _measure_once(
    gold: Gold,
    is_seen: Bool[Tensor, "example direction word"],
    by_mark: Bool[Tensor, "example direction word"],
) -> dict[str, Tensor]:
    """What is the same in all layers: counts and lengths of arcs, and what each offset finds."""
    place = torch.arange(gold.heads.shape[1], device=gold.heads.device)
    offsets = torch.tensor(OFFSETS, device=gold.heads.device)[:, None]
    heads, marks = gold.heads[:, None], gold.marks[:, None]
    # [example, direction, offset, word]
    is_found, is_found_by_mark = (
        (words + offsets == heads)[:, None] & seen[:, :, None]
        for words, seen in ((place, is_seen), (marks, by_mark))
    )
    is_word = torch.ones_like(heads, dtype=torch.bool)  # [example, 1, word]
    length = (place - heads).abs().where(heads >= 0, 0)
    return {
        **_count_found("offset", is_found, is_found_by_mark, gold),
        **_count_found("count", is_word, is_word, gold),
        **_by_relation("length", length, gold),
    }


def best_heads(tally: Tally) -> tuple[tuple[Head, ...], ...]:
    """For each fold, the best head of every relation that the other folds have enough words of."""
    chosen: list[tuple[Head, ...]] = []
    relations = _list_relations(tally)
    for fold in range(N_FOLDS):
        is_other = fold_of(np.arange(N_BUCKETS)) != fold
        count = {r: tally.totals[f"count/{r}"][is_other].sum() for r in relations}
        plain = [r for r, n in count.items() if n >= MIN_COUNT and is_single(r)]
        heads = []
        for relation in plain or ["all"] * bool(relations):
            # [layer, head, direction]
            correct = tally.totals[f"correct/{relation}"][is_other].sum(axis=0)
            layer, head, direction = map(int, np.unravel_index(correct.argmax(), correct.shape))
            heads.append((layer, head, direction))
        chosen.append(tuple(heads))
    return tuple(chosen)


def _list_relations(tally: Tally) -> list[str]:
    """The relations that were counted, most frequent first."""
    counts = {
        name.removeprefix("count/"): total.sum()
        for name, total in tally.totals.items()
        if name.startswith("count/")
    }
    found = [relation for relation, count in counts.items() if count > 0]
    return sorted(found, key=lambda relation: (-counts[relation], relation))


def _table_by_relation(tally: Tally, kind: str, axes: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    parts = [
        accuracy.group_table(tally, kind, relation, {"relation": [relation], **axes})
        for relation in _list_relations(tally)
    ]
    return pd.concat(parts, ignore_index=True)


def _ratios(tally: Tally, above: str, below: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """One over the other for every relation, head and direction, in the order of the table."""
    parts = [
        np.broadcast_to(tally.ratio(f"{above}/{relation}", f"{below}/{relation}").value, shape)
        for relation in _list_relations(tally)
    ]
    return np.stack(parts).ravel()


def _special_table(tally: Tally, heads: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Arcs found where special tokens compete too; empty for a model that has none."""
    below = f"count/{ALL_CONTENT}"
    if LOST not in tally.totals:
        return empty_tables(Dependency.tables)["dependency-special"]
    alone = tally.ratio(f"correct/{ALL_CONTENT}", below).value  # [layer, head, direction]
    lost = tally.ratio(LOST, below)
    values = {"accuracy": alone, "with_special": alone - lost.value}
    return tidy_table(
        heads, {**values, "difference": -lost.value, "low": -lost.high, "high": -lost.low}
    )


def _length_table(tally: Tally) -> pd.DataFrame:
    """The mean length of the arcs of each relation, in words."""
    rows = []
    for relation in _list_relations(tally):
        if relation == ALL_CONTENT or is_single(relation):
            found = tally.ratio(f"length/{relation}", f"count/{relation}")
            numbers = [float(part.ravel()[0]) for part in found]
            rows.append((relation, *numbers))
    return pd.DataFrame(rows, columns=list(Dependency.tables["dependency-length"]))


def _best_row(tally: Tally, relation: str) -> dict[str, object]:
    """The best head of a relation, held out, against the offset that is best on all data.

    An offset sees what the head sees.
    """
    count = tally.totals[f"count/{relation}"][:, 0, 0]  # [bucket]
    head, columns = accuracy.best_head(tally.totals[f"correct/{relation}"], count, DIRECTIONS)
    direction = DIRECTIONS.index(str(columns["direction"]))
    offsets = tally.totals[f"offset/{relation}"][:, 0, direction]  # [bucket, offset]
    best_offset = int(offsets.sum(axis=0).argmax())
    return {
        "relation": relation,
        **columns,
        "offset": OFFSETS[best_offset],
        "baseline_accuracy": offsets[:, best_offset].sum() / count.sum(),
        **accuracy.difference_columns(head, offsets[:, best_offset]),
        **_chance(tally, relation, float(str(columns["accuracy"])), count.sum()),
    }


def _direction_table(tally: Tally, relations: Sequence[str]) -> pd.DataFrame:
    """The best head of each direction, held out, and their difference, paired by bucket.

    The p-values are corrected by Holm.
    """
    rows = []
    for relation in relations:
        count = tally.totals[f"count/{relation}"][:, 0, 0]  # [bucket]
        correct = tally.totals[f"correct/{relation}"]
        ways = [
            choose_best(correct[..., way].reshape(len(correct), -1), count)
            for way in range(len(DIRECTIONS))
        ]
        n_heldout = ways[0].heldout_count.sum()
        shares = [way.heldout.sum() / n_heldout if n_heldout else np.nan for way in ways]
        found = compare(ways[0].heldout, ways[1].heldout, ways[0].heldout_count)
        rows.append((relation, int(count.sum()), *shares, *found[:4]))
    table = pd.DataFrame(rows, columns=list(DIRECTION_COLUMNS))
    return table.assign(p_value=holm(table["p_value"].to_numpy(dtype=float)))
