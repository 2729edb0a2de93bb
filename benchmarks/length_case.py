"""Time and memory of one way over one input, to be run in a process of its own: prints JSON."""

import json
import sys
from time import perf_counter
from typing import Any

import torch
from transformers import LlamaConfig, LlamaModel

from benchmarks.resident import peak_above
from benchmarks.workload import (
    WholeMaps,
    build_analyses,
    encode_ahead,
    forward,
    load_tokenizer,
    make_segments,
)
from headscope.analyses.distance.measure import Distance
from headscope.data import reading
from headscope.engine.measure import measure_examples
from headscope.models import plain
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.options import RunOptions

LONGEST = 16384
REPEATS = {128: 5, 512: 5, 2048: 2}


def smollm2_shape(n_layers: int) -> LoadedModel:
    """The shape of SmolLM2-135M, with fewer layers where time is what counts."""
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=n_layers,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=LONGEST,
    )  # fmt: skip
    torch.manual_seed(0)
    return wrap_model(LlamaModel(config).eval(), load_tokenizer(), "SmolLM2's shape")


def main(way: str, n_tokens: int, n_layers: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    if way == "torch":
        for module in (plain, reading):
            module.is_compiled = lambda weights: False  # type: ignore[attr-defined]
    source = smollm2_shape(n_layers)
    ways = {n: _choose(way, source, n) for n in (128, n_tokens)}
    ways[128]()  # loads and compiles what it needs
    found = []

    def measure() -> None:
        for _ in range(REPEATS.get(n_tokens, 1)):
            start = perf_counter()
            ways[n_tokens]()
            found.append(perf_counter() - start)

    peak = peak_above(measure)
    return {"seconds": min(found), "bytes": peak.resident}


def _choose(way: str, source: LoadedModel, n_tokens: int) -> Any:
    examples = make_segments(1, n_tokens)
    ready = encode_ahead(source, examples, n_tokens)
    if way == "bare":
        inputs = ready.batch(ready.encode(examples, n_tokens)).inputs
        return lambda: forward(ready, [inputs], "sdpa")
    shown: Any = WholeMaps(ready) if way == "whole" else ready
    analyses = build_analyses() if way != "with distance" else [*build_analyses(), Distance()]
    options = RunOptions(max_tokens=n_tokens)
    return lambda: measure_examples(examples, shown, analyses, options, max_tokens=n_tokens)


if __name__ == "__main__":
    way, *sizes = sys.argv[1:]
    print(json.dumps(main(way, *map(int, sizes))))
