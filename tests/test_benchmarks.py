"""What the benchmarks compare with gives the same numbers, and so can be compared with."""

from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import coverage, kv_cache, speed
from benchmarks.speed import OPTIONS, check_agreement
from benchmarks.usual import measure_usually
from benchmarks.workload import WholeMaps, build_analyses, make_segments, minilm
from transformers import LlamaConfig, LlamaForCausalLM

from headscope.corpora.opening import open_corpus
from headscope.engine.measure import measure_examples
from headscope.models import tap


def test_the_usual_way_gives_the_numbers_of_the_engine() -> None:
    source, examples = minilm(), make_segments(3, 40)
    batch = source.batch(source.encode(examples, 40))
    result = measure_examples(examples, source, build_analyses(), OPTIONS)
    check_agreement(measure_usually(source, [batch]), result)


def test_each_part_of_a_pass_has_its_seconds() -> None:
    parts = speed._measure_in_parts(minilm(), make_segments(2, 30))
    names = {analysis.name for analysis in build_analyses()}
    assert names < set(parts)
    assert min(parts[name] for name in names) > 0


def test_whole_maps_give_the_numbers_of_slices() -> None:
    source, examples = minilm(), make_segments(3, 40)
    sliced, whole = (
        measure_examples(examples, shown, build_analyses(), OPTIONS).tallies["entropy"]
        for shown in (source, WholeMaps(source))
    )
    np.testing.assert_allclose(sliced.totals["nats"], whole.totals["nats"], rtol=1e-5)


def test_coverage_has_a_cell_for_each_head_and_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "open_corpus", lambda path, role: open_corpus("starter", role))
    monkeypatch.setattr(coverage, "N_RESAMPLED", 2)
    found = list(coverage._resample(minilm(), np.random.default_rng(0)))
    cells = {number: cells for _, number, _, _, cells in found}
    n_heads = 6 * 12
    assert cells["mean, entropy"] == 2 * n_heads  # over all rows, and that of the opening token
    for relation in coverage.RELATIONS:
        for kind in ("accuracy", "difference"):
            assert cells[f"{kind}, {relation}"] == 2 * n_heads, (kind, relation)
    assert all(0 <= float(held) <= 100 for *_, held, _ in found)


def test_only_heads_that_keep_all_keys_see_beyond_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = LlamaConfig(
        vocab_size=30, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    ids, places = torch.randint(30, (1, 100)), torch.arange(80, 100)
    with torch.inference_mode():
        logits = model(ids).logits[0, places - 1]
    usual = float(torch.nn.functional.cross_entropy(logits, ids[0, places]))
    eager, maps = tap.find_eager(type(model.model.layers[0].self_attn)), []

    def keep(*args: Any, **options: Any) -> Any:
        output, weights = eager(*args, **options)
        maps.append(weights[0])
        return output, weights

    monkeypatch.setattr(tap, "find_eager", lambda kind: keep)

    def loss(keeps: Any) -> float:
        maps.clear()
        attend = kv_cache.tap_with(keeps)
        with tap.replaced_attention(model, attend), torch.inference_mode():
            return kv_cache.loss(model, ids, places)

    every = np.ones((2, 2), bool)
    assert loss(None) == pytest.approx(usual, rel=1e-5)
    assert loss(every) == pytest.approx(usual, rel=1e-5)
    some = every.copy()
    some[1, 0] = False  # the first two of four heads of the second layer
    assert loss(some) != pytest.approx(usual, rel=1e-5)
    rows, keys = np.indices((100, 100))
    is_beyond = (rows - keys >= kv_cache.LAST) & (keys >= kv_cache.FIRST)
    beyond = [[float(head[is_beyond].sum()) for head in layer.numpy()] for layer in maps]
    assert beyond[1][:2] == [0, 0]
    assert min(*beyond[0], *beyond[1][2:]) > 0
    assert torch.stack(maps).sum(-1).allclose(torch.ones(2, 4, 100))
