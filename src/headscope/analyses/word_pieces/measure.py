"""How words become tokens: how many are split into pieces (paper, section 4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headscope.contracts import Analysis, Annotation
from headscope.data.attention import Readings
from headscope.stats.estimates import estimate_array
from headscope.stats.interval import proportion
from headscope.stats.sums import Sums

__all__ = ["WordPieces"]


@dataclass(frozen=True)
class WordPieces(Analysis):
    """The share of words with several tokens, and the mean number of tokens of a word.

    Words are those of the corpus. A word without any token does not count. It is the same for all
    layers and heads: it says how much rests on the way in which pieces are put together.
    """

    name: ClassVar[str] = "word-pieces"
    # of treebanks alone: other corpora are read in windows of several sizes, each word many times
    needs: ClassVar[frozenset[str]] = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    sums: ClassVar[dict[str, str]] = {"words": "", "split": "", "pieces": ""}
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
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
