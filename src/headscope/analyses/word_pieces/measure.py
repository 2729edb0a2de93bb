"""How words become tokens: how many are split into pieces (paper, section 4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention
from headscope.data.reading import Reading
from headscope.data.table import empty_tables
from headscope.stats.interval import proportion
from headscope.stats.tally import Tally

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
    reads: ClassVar[tuple[Reading, ...]] = ()
    tables: ClassVar[dict[str, tuple[str, ...]]] = {
        "word-pieces": (
            *("words", "split", "low", "high"),
            *("pieces", "pieces_low", "pieces_high"),
        )
    }

    def measure(self, attention: LayerAttention) -> Mapping[str, Tensor]:
        """Words, split words and pieces of each example; once, as layers share their tokens."""
        if attention.layer > 0:
            return {}
        rows = []
        for encoding in attention.batch.encodings:
            _, n_pieces = np.unique(encoding.word_ids[encoding.word_ids >= 0], return_counts=True)
            rows.append((len(n_pieces), (n_pieces > 1).sum(), n_pieces.sum()))
        counts = torch.tensor(np.array(rows, np.float32), device=attention.batch.device)
        return dict(zip(("words", "split", "pieces"), counts.unbind(1), strict=True))

    def summarize(self, tally: Tally) -> dict[str, pd.DataFrame]:
        """One row."""
        if not tally:
            return empty_tables(self.tables)
        words, split = tally.totals["words"], tally.totals["split"]  # [bucket, 1]
        values = (words.sum(axis=0), *proportion(split, words), *tally.ratio("pieces", "words"))
        columns = zip(self.tables[self.name], values, strict=True)
        table = pd.DataFrame({name: np.ravel(value) for name, value in columns})
        return {self.name: table.astype({"words": int})}
