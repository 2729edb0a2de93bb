"""Cross attention as a word aligner, against gold alignments: the alignment error rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.contracts import Analysis, Annotation, Watch
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch, Encoding
from headscope.data.reading import MAPS, DerivedReading
from headscope.data.table import Tables
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import FROM_0_TO_1, EstimateColumn, Estimates, Number
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums, mean_of
from headscope.view.answer import OPEN, Answer, AnswerMaker, Topic, write_percent
from headscope.view.facts import head_facts
from headscope.view.judge import name_head
from headscope.view.numbers import SHARE, WHOLE_PERCENT, row_estimate
from headscope.view.presentation import CROSS, LEAST_SHARE, NotableHead, Presentation
from headscope.view.specs import HOW_TO_READ, Grid, PrintedTable
from headscope.view.table import Column, build_table

__all__ = ["WordAlignment"]

STEPS = {"output": "as it writes the word", "input": "as it has read the word"}  # by row


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
class Chosen(DerivedReading):
    """The source word that each target word attends to most, by head and step."""

    of = (MAPS,)

    def derive(self, layer: LayerAttention) -> Int[Tensor, "example head step target"]:
        gold, weights = _gold_of(layer.batch, layer.keys), layer.read(MAPS)
        n_examples, n_steps, n_words, n_rows = gold.rows.shape
        to_words = weights @ gold.keys[:, None].to(weights.dtype)  # [example, head, query, source]
        rows = gold.rows.reshape(n_examples, 1, n_steps * n_words, n_rows).to(weights.dtype)
        scores = (rows @ to_words).masked_fill(gold.is_no_choice[:, None, None], -1.0)
        chosen: Tensor = scores.argmax(-1)
        return chosen.reshape(n_examples, -1, n_steps, n_words)


CHOSEN = Chosen()


@dataclass(frozen=True)
class WordAlignment(Analysis):
    """Each target word is linked to the source word its row attends to most.

    Words are what spaces part: sums over the pieces attended to, means over the rows of a word's
    pieces. With A the links of a head, S the sure and P the possible gold links (S among them),
    the alignment error rate is 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney 2003).
    Special tokens are no candidates. `output` takes the rows that predict a word, `input` those
    that have just read it.
    """

    name = "word-alignment"
    watches = Watch.CROSS_ATTENTION
    needs = frozenset({Annotation.TARGETS, Annotation.ALIGNMENTS})
    reads = (CHOSEN,)
    sums = {
        "sure": "layer head step", "possible": "layer head step", "links": "step", "gold": "",
        "diagonal_sure": "step", "diagonal_possible": "step",
    }  # fmt: skip
    labels = {"step": list(STEPS)}
    tables = {
        "word-alignment": (
            *("layer", "head", "step", "links", "aer", "low", "high"),
            *("precision", "recall", "diagonal_aer"),
        )
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Links that are sure and that are possible, by head and step; and how many there are."""
        gold = _gold_of(seen.batch, seen.keys)
        values = _count_hits(seen[CHOSEN], gold)
        diagonal = gold.diagonal[:, None].expand(-1, len(STEPS), -1)  # [example, step, target]
        hits = _count_hits(diagonal, gold)
        return {
            **values,
            "links": gold.is_linked.sum(-1).double(),
            "gold": gold.sure.sum((1, 2)).double(),
            **{f"diagonal_{name}": hit for name, hit in hits.items()},
        }

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """1 minus the error rate, by step."""
        size = values["links"] + values["gold"][:, None]  # [example, step]
        size = size[:, None, None]
        hits = values["sure"] + values["possible"]  # [example, layer, head, step]
        return {"aligned": np.where(size > 0, hits / np.maximum(size, 1), np.nan)}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """The error rate of every head, beside that of the diagonal."""
        size = sums("links") + sums("gold")
        error = 1 - mean_of(sums("sure") + sums("possible"), size)
        diagonal = mean_of(sums("diagonal_sure") + sums("diagonal_possible"), size)
        columns: dict[str, EstimateColumn] = {
            "links": sums("links").sum("bucket").round().astype(int),
            "aer": Number(error, FROM_0_TO_1),
            "precision": _on_all(sums.mean("possible", "links")),
            "recall": _on_all(sums.mean("sure", "gold")),
            "diagonal_aer": 1 - _on_all(diagonal),
        }
        axes = ("layer", "head", "step")
        return {self.name: Estimates(columns, untrained="aer", axes=axes)}


def _on_all(replicates: xr.DataArray) -> xr.DataArray:
    return replicates.isel(replicate=0, drop=True)


def _count_hits(chosen: Int[Tensor, "example ... step target"], gold: Gold) -> dict[str, Tensor]:
    """How many links are in the gold alignment, by example and step."""
    shape, n_between = chosen.shape, chosen.ndim - 2
    hits = {}
    for name, links in (("sure", gold.sure), ("possible", gold.possible)):
        wide = links.reshape(len(links), *[1] * n_between, *links.shape[1:])
        is_hit = wide.expand(*shape, -1).gather(-1, chosen[..., None])[..., 0]
        is_linked = gold.is_linked.reshape(len(links), *[1] * (n_between - 1), *shape[-2:])
        hits[name] = (is_hit & is_linked).sum(-1).double()
    return hits


def _gold_of(targets: Batch, sources: Batch) -> Gold:
    """The words and links of a batch, read once."""
    return targets.remember("alignment", partial(_read_gold, targets, sources))


def _read_gold(targets: Batch, sources: Batch) -> Gold:
    """The words and links of a batch. Links of words without tokens do not count, nor do examples
    without links."""
    pairs = list(zip(sources.encodings, targets.encodings, strict=True))
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
    return Gold(*(torch.from_numpy(part).to(targets.device) for part in parts))


def _members(word_ids: NDArray[np.int64], n_words: int) -> NDArray[np.bool_]:
    """Which tokens are pieces of which word: [word, token]."""
    return np.equal(word_ids, np.arange(n_words)[:, None])


def _count_words(encoding: Encoding) -> tuple[int, int]:
    example = encoding.example
    return len((example.text or "").split()), len((example.text_pair or "").split())


SHOWN_HEADS = 5
COLUMNS = (
    Column("best aligners", lambda row: f"{row['layer']}-{row['head']}"),
    Column("read", lambda row: STEPS[row["step"]]),
    Column("alignment error rate", lambda row: SHARE.row(row, "aer")),
    Column("precision", lambda row: SHARE.number(row["precision"])),
    Column("recall", lambda row: SHARE.number(row["recall"])),
    Column("the diagonal", lambda row: SHARE.number(row["diagonal_aer"])),
)
UNTRAINED = Column("untrained", lambda row: SHARE.number(row["untrained"]))


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of heads, the lowest error rate first."""
    return table[table["aer"].notna()].sort_values("aer", kind="stable")


def answer_alignment(tables: Tables) -> list[Answer]:
    """The head that aligns best, beside the diagonal."""
    best = _best(tables["word-alignment"])
    if best.empty:
        return []
    row = best.iloc[0]
    name = name_head(row)
    others = f"the diagonal has {write_percent(row['diagonal_aer'])}"
    if "untrained" in best:
        others += f", the best head without training {write_percent(best['untrained'].min())}"
    rates = (
        f"its alignment error rate is {WHOLE_PERCENT.row(row, 'aer')} (chosen on the same words; "
        f"{others}; 0 % is perfect)"
    )
    is_better = row["high"] < row["diagonal_aer"]
    none = f"No head aligns words better than the diagonal; the best is {name}"
    text = f"{f'Head {name} aligns words best' if is_better else none}: {rates}."
    detail = f"{SHARE.row(row, 'aer')}, read {STEPS[row['step']]}."
    topic, weight = (Topic.FINDS, 0.95) if is_better else (Topic.NONE, OPEN)
    return [
        Answer(
            *(text, weight, detail, (name,), "word-alignment", topic),
            *(row_estimate(row, "aer"), float(row["diagonal_aer"])),
        )
    ]


def find_aligner(tables: Tables) -> list[NotableHead]:
    """The head that aligns best, at its step, if it aligns at all."""
    best = _best(tables.get("word-alignment", pd.DataFrame({"aer": []})))
    if best.empty or not 1 - best["aer"].iloc[0] > LEAST_SHARE:
        return []
    row = best.iloc[0]
    step = [*STEPS].index(row["step"])
    head = int(row["layer"]) - 1, int(row["head"]) - 1
    return [NotableHead("word alignment", "aligned", *head, (step,))]


PRESENTATION = Presentation(CROSS, notable_heads=find_aligner, show=[
    Grid(
        name="word-alignment", column="aer", axis="alignment error rate", panel="step", words=STEPS,
        made_by="--text PAIRS.jsonl (with gold alignments)", title="Heads as word aligners",
        caption=f"{HOW_TO_READ} Alignment error rate when each target word is linked to the source "
        "word that its row attends to most. The lighter, the better. One panel: rows that write "
        "the word. The other: rows that have just read it.",
    ),
    AnswerMaker(("word-alignment",), answer_alignment),
    head_facts(
        "word alignment", "word-alignment", "aer", split="step", words=STEPS, label="error rate",
        is_lowest_first=True, note=lambda row: STEPS[row.step],
    ),
    PrintedTable(
        "word-alignment",
        lambda table, min_count: [
            build_table(
                _best(table).head(SHOWN_HEADS).to_dict("records"),
                [*COLUMNS, *([UNTRAINED] if "untrained" in table else [])],
            )
        ],
    ),
])  # fmt: skip
