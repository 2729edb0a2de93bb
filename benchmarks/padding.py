"""What batches of equal length are worth on sentences of uneven length, as in a treebank."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.row import Row, Settings, at_least
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import build_analyses, encode_ahead, forward, make_sentences, minilm
from headscope.contracts import CorpusRole
from headscope.data.encoding import Encoding
from headscope.engine.measure import measure_examples
from headscope.models.encode import equal_length_batches
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions

__all__ = ["run"]

N_SENTENCES, SHORTEST, LONGEST = 512, 5, 60
PADDED_SENTENCES = 32
OPTIONS = RunOptions()  # all sentences are in one shard
SHAPE = f"MiniLM, {N_SENTENCES} sentences of {SHORTEST}-{LONGEST} words"

Inputs = dict[str, Tensor]


def run(settings: Settings) -> Iterator[Row]:
    """Sentences a second beside padded batches in the order of the corpus."""
    examples, source = make_sentences(N_SENTENCES, SHORTEST, LONGEST), minilm()
    ready = encode_ahead(source, examples, source.max_tokens)
    encodings = ready.encode(examples, source.max_tokens)
    padded, equal = padded_inputs(encodings), equal_inputs(ready, encodings)
    analyses = build_analyses()
    works: dict[str, Work] = {
        "padded": partial(forward, ready, padded, "sdpa"),
        "equal": partial(forward, ready, equal, "sdpa"),
        "analyze": partial(
            measure_examples, examples, ready, analyses, OPTIONS, CorpusRole.TREEBANK
        ),
    }
    best = best_seconds(works, settings.repeats)
    gain = {name: best["padded"] / seconds for name, seconds in best.items()}
    most = _positions(padded) / _positions(equal)
    against = f"padded batches of {PADDED_SENTENCES}"
    yield from (
        Row("padding", f"equal-length forward / {against}, {SHAPE}", gain["equal"], "x",
            at_least(1.5)),
        Row("padding", f"analyze (three analyses) / {against}", gain["analyze"], "x",
            at_least(1.5)),
        Row("padding", "  positions, padded / equal-length (the most to be gained)", most, "x"),
        Row("padding", "  batches formed, equal-length / padded", len(equal) / len(padded), "x"),
    )  # fmt: skip


def padded_inputs(encodings: Sequence[Encoding]) -> list[Inputs]:
    """Batches in corpus order, each padded to its longest sentence and masked."""
    starts = range(0, len(encodings), PADDED_SENTENCES)
    return [_pad(encodings[start : start + PADDED_SENTENCES]) for start in starts]


def equal_inputs(source: LoadedModel, encodings: Sequence[Encoding]) -> list[Inputs]:
    """The batches that a pass over these encodings forms."""
    batches = equal_length_batches(encodings, OPTIONS.batch_tokens)
    return [source.batch(members).inputs for members in batches]


def _pad(encodings: Sequence[Encoding]) -> Inputs:
    longest = max(map(len, encodings))
    return {
        name: torch.from_numpy(
            np.stack([np.pad(e.inputs[name], (0, longest - len(e))) for e in encodings])
        )  # [example, token]; 0 is the padding token, and no attention in the mask
        for name in encodings[0].inputs
    }


def _positions(batches: Sequence[Inputs]) -> int:
    return sum(inputs["input_ids"].numel() for inputs in batches)
