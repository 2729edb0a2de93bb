"""An example for each of the closest matches: what both heads do with the same text."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.contracts import CorpusRole
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.attention import head_name
from headscope.data.example import Example
from headscope.data.head_view import ShownExample
from headscope.data.running_text import split_words
from headscope.data.table import Tables
from headscope.engine.head_views import view_heads
from headscope.models.pair import ModelPair, WordPair

__all__ = ["show_matches"]

SHOWN_MATCHES, READ = 8, 100
LEAST_LETTERS = 40
DRAWN_TOKENS = 24


def show_matches(pair: ModelPair, tables: Tables, text: CorporaLike | None) -> list[ShownExample]:
    """The closest matches, both heads of each on one short example of the text."""
    matches = next(iter(tables.values()), pd.DataFrame())
    example = _choose_example(text)
    if example is None or not len(matches):
        return []
    is_words = isinstance(pair, WordPair)
    example = split_words(example) if is_words else example
    shown: list[ShownExample] = []
    closest = matches.sort_values("divergence", kind="stable").head(SHOWN_MATCHES)
    found: list[Any] = list(closest.itertuples(index=False))
    for row in found:
        places = [(int(row.layer_a) - 1, int(row.head_a) - 1)]
        places += [(int(row.layer_b) - 1, int(row.head_b) - 1)]
        title = f"matched: {head_name(*places[0])} and {head_name(*places[1])}"
        for model, place in zip((pair.first, pair.second), places, strict=True):
            (view,) = view_heads(
                model, example, [place], is_words, arcs=(), max_tokens=DRAWN_TOKENS
            )
            name = Path(model.name).name
            says = f"{row.divergence:.3f} nats apart"
            shown.append(ShownExample(title, name, float(row.divergence), says, view))
    return shown


def _choose_example(text: CorporaLike | None) -> Example | None:
    """The shortest of the first examples that is more than a heading."""
    if text is None:
        return None
    examples = list(islice(_read(text), READ))
    long_enough = [e for e in examples if _length(e) >= LEAST_LETTERS]
    return min(long_enough or examples, key=_length, default=None)


def _read(text: CorporaLike) -> Iterator[Example]:
    for corpus in as_corpora(text, CorpusRole.TEXT):
        yield from corpus


def _length(example: Example) -> int:
    return len(example.text or " ".join(example.words or ()))
