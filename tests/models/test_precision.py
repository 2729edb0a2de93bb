"""Half precision ends at the source: what it shows is float32, whatever the model computes in."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.analyses.ablation import Ablation
from headscope.analyses.entropy import Entropy
from headscope.analyses.gradient import Gradient
from headscope.analyses.position import Position
from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.contracts import Observation
from headscope.data.encoding import Batch
from headscope.engine.measure import measure_batch, show_layers
from headscope.models.ablation import AblationSource, mean_outputs
from headscope.models.gradients import GradientSource
from headscope.models.language import HiddenStateOutcome, LossOutcome, build_task
from headscope.models.loaded import LoadedModel, wrap_model
from tests.models.test_families import EXAMPLES, N_TOKENS, source_of
from tests.models.test_gradients import language_model
from tests.models.tiny import FAMILIES, N_LAYERS, build_model, build_tokenizer

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
ROUNDING = {"bfloat16": 0.02, "float16": 0.003}  # of a row of weights
# As far as rounding in three layers of a tiny model with sharp heads may move a weight.
DISTANCE = {"bfloat16": 0.2, "float16": 0.03}
# Seen by the tap, and as output_attentions.
NAMES = ["bert", "gpt2", "llama", "modernbert", "t5", "bloom", "mpnet", "deberta-v2"]

each_dtype = pytest.mark.parametrize("dtype", HALF)


@cache
def in_half(name: str, dtype: str, has_head: bool = False) -> LoadedModel:
    family = FAMILIES[name]
    model = build_model(name)
    if has_head:
        whole = language_model(name).model
        model = type(whole)(whole.config).eval()
        model.load_state_dict(whole.state_dict())
    return wrap_model(model.to(HALF[dtype]), build_tokenizer(family.tokenizer), name)


def batch_of(source: LoadedModel) -> Batch:
    return source.batch(source.encode(EXAMPLES, N_TOKENS))


def observe(source: Any, batch: Batch) -> list[Any]:
    observed: list[Observation] = []
    source.attend(batch, observed.append)
    assert len(observed) == N_LAYERS
    assert all(layer.is_finite().all() for layer in observed)
    return sorted(observed, key=lambda layer: layer.layer)


def measure_all(analyses: Sequence[Any], observed: Sequence[Any]) -> None:
    for analysis in analyses:
        seen = show_layers(analysis.reads, observed)
        for name, numbers in measure_batch(analysis, seen, len(EXAMPLES)).items():
            assert numbers.dtype.itemsize >= 4, name


def assert_near(found: Tensor, expected: Tensor, distance: float) -> None:
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() <= distance * expected.abs().max()


@each_dtype
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_float32_rows_that_sum_to_one(name: str, dtype: str) -> None:
    source = in_half(name, dtype)
    assert source.describe()["dtype"] == dtype
    assert source.describe()["seen_by"] == FAMILIES[name].seen_by
    observed = observe(source, batch_of(source))
    wide = observe(source_of(name), batch_of(source_of(name)))
    for layer, expected in zip(observed, wide, strict=True):
        assert layer.weights.dtype == torch.float32
        assert (layer.weights.sum(-1) - 1).abs().max() < ROUNDING[dtype]
        assert (layer.weights - expected.weights).abs().max() < DISTANCE[dtype]
        assert torch.equal(layer.visible, expected.visible)
    measure_all([Position(), Entropy(), SpecialTokens()], observed)


@pytest.mark.parametrize("name", ["bert", "bloom"])
def test_double_precision_stays(name: str) -> None:
    source = wrap_model(build_model(name).double(), build_tokenizer(FAMILIES[name].tokenizer))
    assert {a.weights.dtype for a in observe(source, batch_of(source))} == {torch.float64}


@each_dtype
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_norms_are_float32_rows_that_sum_to_one(name: str, dtype: str) -> None:
    source = replace(in_half(name, dtype), weights="norm")
    observed = observe(source, batch_of(source))
    wide = replace(source_of(name), weights="norm")
    for layer, expected in zip(observed, observe(wide, batch_of(wide)), strict=True):
        assert (layer.weights.sum(-1) - 1).abs().max() < 1e-5
        assert_near(layer.weights, expected.weights, DISTANCE[dtype])
    measure_all([Position(), Entropy(), SpecialTokens()], observed)


# Gemma is not made for float16: its gradients overflow, as those of its training would.
@pytest.mark.parametrize(
    ("name", "dtype"), [*product(["bert", "gpt2", "llama"], HALF), ("gemma2", "bfloat16")]
)
def test_gradients_are_float32(name: str, dtype: str) -> None:
    source = GradientSource(build_task(in_half(name, dtype, has_head=True)))
    wide = GradientSource(build_task(language_model(name)))
    observed = observe(source, batch_of(source.model))
    for layer, expected in zip(observed, observe(wide, batch_of(wide.model)), strict=True):
        assert_near(layer.sizes, expected.sizes, DISTANCE[dtype])
    measure_all([Gradient()], observed)


@each_dtype
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("has_head", [True, False])
def test_changes_are_float32(name: str, dtype: str, has_head: bool) -> None:
    def ablate(model: LoadedModel) -> list[Any]:
        outcome = LossOutcome(build_task(model)) if has_head else HiddenStateOutcome(model)
        means = mean_outputs(model, [batch_of(model)])
        assert means.dtype == torch.float32
        return observe(AblationSource(outcome, means), batch_of(model))

    observed = ablate(in_half(name, dtype, has_head))
    wide = ablate(language_model(name) if has_head else source_of(name))
    for layer, expected in zip(observed, wide, strict=True):
        assert_near(layer.base, expected.base, DISTANCE[dtype])
        assert layer.changes.dtype == torch.float32
    if not has_head:
        # Changes of a random model's loss are below the rounding of half precision.
        found, wanted = (torch.stack([layer.changes for layer in o]) for o in (observed, wide))
        assert_near(found, wanted, 5 * DISTANCE[dtype])
    measure_all([Ablation()], observed)
