"""Gradients, norms and ablation: what they cost beside the bare passes that they look into."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from benchmarks.row import Row, Settings, at_most
from benchmarks.timing import Work, best_seconds
from benchmarks.workload import (
    WholeMaps,
    bert_base,
    bert_base_with_head,
    build_analyses,
    encode_ahead,
    make_segments,
)
from headscope.analyses.gradient import Gradient
from headscope.data.encoding import Batch
from headscope.engine.measure import measure_examples
from headscope.models.ablation import MODES, AblationSource, mean_outputs
from headscope.models.encode import equal_length_batches
from headscope.models.gradients import GradientSource, only_activations
from headscope.models.language import LossOutcome, Task, build_task
from headscope.options import RunOptions

__all__ = ["back_and_forth", "run"]

N_SEGMENTS, N_TOKENS = 16, 128
N_BARE = 8  # bare passes that are timed, to stand for all
OPTIONS = RunOptions(batch_tokens=N_SEGMENTS * N_TOKENS)


def run(settings: Settings) -> Iterator[Row]:
    """Gradients beside a bare pass forth and back, and norms beside plain attention."""
    examples = make_segments(N_SEGMENTS, N_TOKENS)
    task = build_task(encode_ahead(bert_base_with_head(), examples, N_TOKENS))
    source = task.source
    encodings = source.encode(examples, N_TOKENS)
    batches = [source.batch(b) for b in equal_length_batches(encodings, OPTIONS.batch_tokens)]
    gradients = GradientSource(task)
    works: dict[str, Work] = {
        "bare": partial(back_and_forth, task, batches),
        "gradient": partial(measure_examples, examples, gradients, [Gradient()], OPTIONS),
    }
    best = best_seconds(works, settings.repeats)
    measured = (
        f"gradient / bare SDPA forward + backward of the same "
        f"loss to the embeddings, BERT-base with its MLM head, {N_SEGMENTS} x {N_TOKENS} tokens"
    )
    yield Row("importance", measured, best["gradient"] / best["bare"], "x", at_most(1.3))
    plain: Any = WholeMaps(encode_ahead(bert_base(), examples, N_TOKENS))
    weighed = replace(plain.source, weights="norm")
    works = {
        "plain": partial(measure_examples, examples, plain, build_analyses(), OPTIONS),
        "norms": partial(measure_examples, examples, weighed, build_analyses(), OPTIONS),
    }
    best = best_seconds(works, settings.repeats)
    measured = "three analyses on norms / on whole maps of attention, BERT-base, the same segments"
    yield Row("importance", measured, best["norms"] / best["plain"], "x", at_most(1.15))
    yield _compare_ablation(task, batches[0], settings)


def _compare_ablation(task: Task, batch: Batch, settings: Settings) -> Row:
    """All heads of one segment, altered in every way, beside a bare pass for each of them."""
    source, model = task.source, task.source.model
    one = source.batch(batch.encodings[:1])
    means = mean_outputs(source, [one])
    altered = AblationSource(LossOutcome(task), means)

    def bare() -> None:
        model.set_attn_implementation("sdpa")
        with torch.inference_mode():
            for _ in range(N_BARE):
                task.losses(*task.prepare(one))

    works: dict[str, Work] = {"bare": bare, "ablation": lambda: altered.attend(one, lambda c: None)}
    best = best_seconds(works, settings.repeats)
    n_passes = source.n_layers * source.n_heads * len(MODES) + 1
    measured = (
        f"ablation of {source.n_layers} x {source.n_heads} heads in {len(MODES)} ways / {n_passes} "
        f"bare SDPA forward passes, BERT-base with its MLM head, one segment of {N_TOKENS} tokens"
    )
    figure = best["ablation"] / (best["bare"] * n_passes / N_BARE)
    return Row("importance", measured, figure, "x", at_most(0.6))


def back_and_forth(task: Task, batches: Sequence[Batch]) -> None:
    """The bare way: the loss, and its gradient by the embeddings; no weight gets one."""
    task.source.model.set_attn_implementation("sdpa")
    for batch in batches:
        with only_activations(task.source.model), torch.enable_grad():
            task.losses(*task.prepare(batch)).sum().backward()
