"""Heads as dependency parsers: does a word attend most to its syntactic head? (paper, 4.2)

The totals are `correct/RELATION` [bucket, layer, head, direction], `offset/RELATION` [bucket, 1,
offset] and `count/RELATION` [bucket, 1, 1].
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.contracts import Annotation, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.table import Tables, empty_tables, head_axes
from headscope.data.tree import ROOT
from headscope.data.words import (
    check_query_pieces,
    pool_words,
    query_pieces_option,
    word_weights,
)
from headscope.options import option
from headscope.stats import accuracy
from headscope.stats.bucket import N_BUCKETS, N_FOLDS, fold_of
from headscope.stats.heldout import choose_best
from headscope.stats.ranking import Values
from headscope.stats.tally import Tally
from headscope.stats.tests import compare, holm

__all__ = ["DIRECTIONS", "Dependency", "Head", "best_heads", "relation_name"]

DIRECTIONS = ["dependent-to-head", "head-to-dependent"]
OFFSETS = [offset for offset in range(-10, 11) if offset != 0]
ALL, ALL_CONTENT = "all", "all (no punct or root)"
POSSESSIVE, POSSESSIVE_PLAIN = "poss", "poss (no 's rule)"
POSSESSIVE_MARKS = ("'s", "’s", "'")
NO_WORD = -2  # where an example has fewer words than the longest
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


@dataclass(frozen=True)
class Dependency:
    """Each head as a parser without training: a word's most attended other word is its prediction.

    dependent-to-head reads the dependent's row, head-to-dependent its column. Every relation is
    scored, `all` words as the paper's code counts them (the root is always missed), and all but
    punctuation and root. For Stanford's `poss` the prediction of a following 's counts too. Words
    that the tokenizer drops cannot attend; arcs from or to them are left out.
    """

    coarse: bool = option(False, "Merge subtypes of relations: nsubj:pass into nsubj.")
    query_pieces: str = query_pieces_option()

    name: ClassVar[str] = "dependency"
    watches: ClassVar[Watch] = Watch.ATTENTION
    needs: ClassVar[frozenset[str]] = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "dependency": ("relation", "direction", "layer", "head", *accuracy.SCORE_COLUMNS),
        "dependency-offset": ("relation", "offset", *accuracy.SCORE_COLUMNS),
        "dependency-best": (
            *("relation", *accuracy.BEST_HEAD_COLUMNS, "offset", "baseline_accuracy"),
            *accuracy.DIFFERENCE_COLUMNS,
        ),
        "dependency-directions": DIRECTION_COLUMNS,
    }

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Arcs found by example, head and direction, for each relation; counts and offsets once."""
        batch = attention.batch
        gold = batch.remember(("gold", self), lambda: self._read_trees(batch))
        found = predict_words(attention, self.query_pieces)  # [example, head, direction, word]
        heads, marks = gold.heads[:, None, None, :], gold.marks[:, None, None, :].expand_as(found)
        values = _count_found(
            "correct", found == heads, gold, lambda: found.gather(-1, marks) == heads
        )
        if attention.layer == 0:
            values |= batch.remember(("baseline", self), lambda: _measure_offsets(gold))
        return values

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Arcs found minus arcs missed, by relation, head and direction."""
        names = [name.partition("/")[2] for name in values if name.startswith("correct/")]
        return accuracy.rank_groups(
            values, [name for name in names if name not in (ALL, ALL_CONTENT)]
        )

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """Every head on every relation, the offsets, and the best of both.

        The p-value is that of the held-out difference, paired by bucket of documents and corrected
        by Holm.
        """
        relations = _list_relations(tally)
        if not relations:
            return empty_tables(self.tables)
        n_layers, n_heads = tally.totals[f"correct/{relations[0]}"].shape[1:3]
        heads = {**head_axes(n_layers, n_heads), "direction": DIRECTIONS}
        offsets = {"layer": [1], "offset": OFFSETS}
        rows = [_best_row(tally, relation) for relation in relations]
        best = accuracy.best_table(rows, self.tables["dependency-best"])
        best["p_value"] = holm(best["p_value"].to_numpy(dtype=float))
        tables = {
            "dependency": _table_by_relation(tally, "correct", heads),
            "dependency-offset": _table_by_relation(tally, "offset", offsets),
            "dependency-best": best,
            "dependency-directions": _direction_table(tally, relations),
        }
        return {name: table[list(self.tables[name])] for name, table in tables.items()}

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

    def _read_trees(self, batch: Batch) -> Gold:
        has_tokens = pool_words(batch).has_tokens.cpu().numpy()
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
                for name in names:
                    members.setdefault(name, np.zeros(has_tokens.shape, bool))[i, word] = True
                if POSSESSIVE in names and words[word + 1 : word + 2] and has_tokens[i, word + 1]:
                    marks[i, word] = word + (words[word + 1] in POSSESSIVE_MARKS)
        is_relation = np.stack(list(members.values()), axis=-1)  # [example, word, relation]
        return Gold(
            heads=torch.from_numpy(heads).to(batch.device),
            marks=torch.from_numpy(marks).to(batch.device),
            relations=list(members),
            is_relation=torch.from_numpy(is_relation).float().to(batch.device),
        )


def relation_name(relation: str, coarse: bool) -> str:
    """The relation as it is counted: whole, or without its subtype.

    >>> relation_name("nsubj:pass", coarse=True)
    'nsubj'
    """
    return relation.partition(":")[0] if coarse else relation


def predict_words(
    attention: LayerAttention, query_pieces: str = "mean"
) -> Int[Tensor, "example head direction word"]:
    """The most attended other word of each row, and of each column; ties go to the first."""
    batch = attention.batch
    is_no_pair = batch.remember("no pair", lambda: _find_no_pairs(batch))
    scores = word_weights(attention, query_pieces).masked_fill(is_no_pair, -1.0)
    turned = scores.transpose(-1, -2).contiguous()  # torch finds maxima fastest along rows
    return torch.stack([scores.argmax(-1), turned.argmax(-1)], dim=2)


def _find_no_pairs(batch: Batch) -> Bool[Tensor, "example 1 word other"]:
    """Where there is no choice: a word itself, and words without tokens."""
    has_tokens = pool_words(batch).has_tokens
    itself = torch.eye(has_tokens.shape[1], dtype=torch.bool, device=batch.device)
    return (~(has_tokens[:, :, None] & has_tokens[:, None, :]) | itself)[:, None]


def _count_found(
    kind: str, is_found: Bool[Tensor, "..."], gold: Gold, by_mark: Callable[[], Tensor]
) -> dict[str, Tensor]:
    """How many words of each relation are found; a possessor also `by_mark`, its following 's."""
    values = _by_relation(kind, is_found, gold)
    if POSSESSIVE in gold.relations:
        with_mark = _by_relation(kind, is_found | by_mark(), gold)
        values[f"{kind}/{POSSESSIVE_PLAIN}"] = values[f"{kind}/{POSSESSIVE}"]
        values[f"{kind}/{POSSESSIVE}"] = with_mark[f"{kind}/{POSSESSIVE}"]
    return values


def _by_relation(kind: str, is_found: Bool[Tensor, "..."], gold: Gold) -> dict[str, Tensor]:
    """The sums over the words of each relation: `is_found[example, ..., word]`."""
    n_examples, *middle, n_words = is_found.shape
    flat = is_found.reshape(n_examples, -1, n_words).to(gold.is_relation.dtype)
    found = (flat @ gold.is_relation).reshape(n_examples, *middle, -1)  # [..., relation]
    return {f"{kind}/{name}": found[..., i] for i, name in enumerate(gold.relations)}


def _measure_offsets(gold: Gold) -> dict[str, Tensor]:
    """What does not depend on attention: how many words there are, and what each offset finds."""
    place = torch.arange(gold.heads.shape[1], device=gold.heads.device)
    offsets = torch.tensor(OFFSETS, device=gold.heads.device)[:, None]
    heads, marks = gold.heads[:, None, :], gold.marks[:, None, :]
    is_found = (place + offsets == heads) & (heads >= 0)  # [example, offset, word]
    is_word = torch.ones_like(heads, dtype=torch.bool)
    found = _count_found("offset", is_found, gold, lambda: marks + offsets == heads)
    return found | _count_found("count", is_word, gold, lambda: is_word)


def best_heads(tally: Tally) -> tuple[tuple[Head, ...], ...]:
    """For each fold, the best head of every relation that the other folds have enough words of."""
    chosen: list[tuple[Head, ...]] = []
    relations = _list_relations(tally)
    for fold in range(N_FOLDS):
        is_other = fold_of(np.arange(N_BUCKETS)) != fold
        count = {r: tally.totals[f"count/{r}"][is_other].sum() for r in relations}
        plain = [r for r, n in count.items() if n >= MIN_COUNT and not r.startswith("all")]
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


def _best_row(tally: Tally, relation: str) -> dict[str, object]:
    """The best head of a relation, held out, against the offset that is best on all data."""
    count = tally.totals[f"count/{relation}"][:, 0, 0]  # [bucket]
    head, columns = accuracy.best_head(tally.totals[f"correct/{relation}"], count, DIRECTIONS)
    offsets = tally.totals[f"offset/{relation}"][:, 0]  # [bucket, offset]
    best_offset = int(offsets.sum(axis=0).argmax())
    return {
        "relation": relation,
        **columns,
        "offset": OFFSETS[best_offset],
        "baseline_accuracy": offsets[:, best_offset].sum() / count.sum(),
        **accuracy.difference_columns(head, offsets[:, best_offset]),
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
