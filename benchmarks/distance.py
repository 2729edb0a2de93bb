"""Distances between heads: the kernel against the released formula, torch and the forward pass."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.row import Row, Settings, at_least, at_most
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import bert_base, build_analyses, encode_ahead, forward, make_segments
from headscope.analyses.distance.measure import Distance
from headscope.data.encoding import Batch
from headscope.data.sampled_rows import SampledRows
from headscope.engine.measure import measure_examples
from headscope.kernels.jensen_shannon import divergence_within, sum_pairs, sum_pairs_in_torch
from headscope.models.encode import equal_length_batches
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions

__all__ = ["run"]

N_BATCHES, N_SEGMENTS, N_TOKENS = 2, 16, 128
OPTIONS = RunOptions(batch_tokens=N_SEGMENTS * N_TOKENS)
SMOOTHING = np.float32(0.001)  # what the released code mixes in

Maps = NDArray[np.float32]  # [head, row, key]


def run(settings: Settings) -> Iterator[Row]:
    """Ratios of seconds, each the best of its rounds within one run."""
    source = bert_base()
    examples = make_segments(N_BATCHES * N_SEGMENTS, N_TOKENS)
    ready = encode_ahead(source, examples, N_TOKENS)
    encodings = ready.encode(examples, N_TOKENS)
    batches = [ready.batch(b) for b in equal_length_batches(encodings, OPTIONS.batch_tokens)]
    rows = _collect_rows(ready, batches[0])  # [example, row, head, key]
    _check_agreement(rows)
    together = [*build_analyses(), Distance()]
    maps: Maps = np.ascontiguousarray(rows[0].transpose(0, 1).numpy())  # [head, row, key]
    works: dict[str, Work] = {
        "bare": partial(forward, ready, [batch.inputs for batch in batches], "sdpa"),
        "kernel": partial(divergence_within, rows),
        "all": partial(measure_examples, examples, ready, together, OPTIONS),
        "distance": partial(measure_examples, examples, ready, [Distance()], OPTIONS),
        "released": partial(released_formula, maps),  # these two of one segment
        "torch": partial(sum_pairs_in_torch, rows[:1]),
    }
    best = best_seconds(works, settings.repeats)
    kernel = best["kernel"] / N_SEGMENTS
    shape = f"{rows.shape[2]} heads, {N_TOKENS} tokens"
    released = f"distance: released formula (float32 NumPy) / kernel, {shape}"
    yield Row("distance", released, best["released"] / kernel, "x", at_least(30))
    yield Row("distance", "  torch on the CPU / kernel", best["torch"] / kernel, "x")
    forward_ratio = N_BATCHES * best["kernel"] / best["bare"]
    measured = f"distance: kernel / bare SDPA forward, BERT-base, {N_SEGMENTS} x {N_TOKENS} tokens"
    yield Row("distance", measured, forward_ratio, "x", at_most(0.40))
    whole = "position, special-tokens, entropy and distance"
    yield Row("distance", f"{whole} / bare", best["all"] / best["bare"], "x", at_most(1.25))
    yield Row("distance", "  distance alone / bare", best["distance"] / best["bare"], "x")


def _collect_rows(source: LoadedModel, batch: Batch) -> torch.Tensor:
    """All rows of all heads of a batch, as the analysis gets them."""
    sampled, layers = SampledRows(N_TOKENS, source.n_layers * source.n_heads), list[Any]()
    source.attend(batch, lambda attention: layers.append(attention.read(sampled)))
    return sampled.join(layers).weights


def released_formula(maps: Maps) -> NDArray[np.float32]:
    """Both halves of the divergence with logarithms of their own, for all ordered pairs.

    As the paper's code does it: smoothed, natural logarithm, every pair twice.
    """
    n_heads, _, n_keys = maps.shape
    smoothed = SMOOTHING / np.float32(n_keys) + (1 - SMOOTHING) * maps
    distance = np.zeros((n_heads, n_heads), dtype=np.float32)
    for head in range(n_heads):
        one = smoothed[head][None]
        middle = (one + smoothed) / 2
        parts = -one * np.log(middle / one) - smoothed * np.log(middle / smoothed)
        distance[head] = (parts / 2).sum(-1).sum(-1)
    return distance


def _check_agreement(rows: torch.Tensor) -> None:
    """Compiled and torch must agree, and be near the smoothed formula."""
    few = rows[:1, :, :12]
    one, other = sum_pairs(few), sum_pairs_in_torch(few.double())
    np.testing.assert_allclose(np.triu(one), np.triu(other), rtol=1e-6)
    released = released_formula(np.ascontiguousarray(few[0].transpose(0, 1).numpy()))
    own = divergence_within(few)[0]
    np.testing.assert_allclose(released[np.triu_indices(12, 1)], own, rtol=0.05, atol=0.05)
