"""How words become tokens: how many are split into pieces (paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headscope.contracts import Analysis, Annotation
from headscope.data.attention import Readings
from headscope.lazy import Tensor, torch
from headscope.stats.estimates import estimate_array
from headscope.stats.interval import proportion
from headscope.stats.sums import Sums
from headscope.view.judge import above
from headscope.view.presentation import SYNTAX, Presentation

__all__ = ["WordPieces"]


@dataclass(frozen=True)
class WordPieces(Analysis):
    """The share of words with several tokens, and the mean number of tokens of a word.

    Words are those of the corpus. A word without any token does not count. It is the same for all
    layers and heads: it says how much rests on the way in which pieces are put together.
    """

    name = "word-pieces"
    # of treebanks alone: other corpora are read in windows of several sizes, each word many times
    needs = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    sums = {"words": "", "split": "", "pieces": ""}
    tables = {
        "word-pieces": (
            *("words", "split", "low", "high"),
            *("pieces", "pieces_low", "pieces_high"),
        )
    }

    def measure(self, seen: Readings) -> Mapping[str, Tensor]:
        """Words, split words and pieces of each example."""
        rows = []
        for encoding in seen.batch.encodings:
            _, n_pieces = np.unique(encoding.word_ids[encoding.word_ids >= 0], return_counts=True)
            rows.append((len(n_pieces), (n_pieces > 1).sum(), n_pieces.sum()))
        counts = torch.tensor(np.array(rows, np.float32), device=seen.batch.device)
        return dict(zip(("words", "split", "pieces"), counts.unbind(1), strict=True))

    def summarize(self, sums: Sums) -> Mapping[str, pd.DataFrame]:
        """One row."""
        words, split = sums("words").values, sums("split").values  # [bucket]
        pieces = estimate_array(sums.mean("pieces", "words"))
        shares = (float(part) for part in (*proportion(split, words), *pieces))
        numbers = (int(words.sum()), *shares)
        return {self.name: pd.DataFrame([numbers], columns=list(self.tables[self.name]))}


FEW = 0.16  # twice the paper's share

PRESENTATION = Presentation(SYNTAX, made_by="--treebank FILE", show=[
    above(
        "few-words-are-split", "word-pieces", "split", line=FEW, is_above=False,
        section="4.1", is_of_data=True,
        shows="{number} of {row[words]:,.0f} words are split; a word has {row[pieces]:.2f} tokens "
        "on average.",
        says="Few words are split into several tokens (here: under 16 %, twice the paper's share), "
        "so results for words depend little on how pieces are merged (a finding about the data "
        "and the tokenizer, not about the model).",
        paper='"some words (~8% in our data) are split up into multiple tokens"',
    ),
])  # fmt: skip
