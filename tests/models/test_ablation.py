"""Ablation through the tap equals surgery on the model, and running copies equals running each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headscope.data.attention import LayerChange
from headscope.data.encoding import Batch
from headscope.errors import ModelError
from headscope.models.ablation import (
    MODES,
    AblationSource,
    find_sinks,
    mean_outputs,
    move_from_sinks,
)
from headscope.models.language import HiddenStateOutcome, LossOutcome, Outcome, build_task
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.tap import TapOutput, observe_tap
from tests.models import every_family, family_checks
from tests.models.surgery import find_projection
from tests.models.test_families import EXAMPLES, N_TOKENS, source_of
from tests.models.test_gradients import language_model
from tests.models.tiny import FAMILIES, build_model, build_tokenizer

WITH_LOSS = ["bert", "roberta", "albert", "distilbert", "modernbert", "gpt2", "llama", "opt"]
WITHOUT = ["bert", "albert", "gpt2", "llama", "t5"]


def outcome_of(name: str, has_loss: bool) -> Outcome:
    return (
        LossOutcome(build_task(language_model(name)))
        if has_loss
        else HiddenStateOutcome(source_of(name))
    )


def batch_of(source: LoadedModel) -> Batch:
    return source.batch(source.encode(EXAMPLES, N_TOKENS))


def changes_of(source: AblationSource, batch: Batch) -> dict[int, LayerChange]:
    seen: dict[int, LayerChange] = {}
    source.attend(batch, lambda change: seen.update({change.layer: change}))
    return seen


def watch(source: LoadedModel, inputs: dict[str, Tensor]) -> list[TapOutput]:
    seen: list[TapOutput] = []
    own = {name: value for name, value in inputs.items() if name != "targets"}
    observe_tap(source.model, own, seen.append)
    return seen


def _has_weight(module: nn.Module, weight: Tensor) -> bool:
    own = getattr(module, "weight", None)
    return isinstance(own, Tensor) and own.data_ptr() == weight.data_ptr()


def surgically(
    outcome: Outcome, batch: Batch, layer: int, alter: Callable[[Tensor], Tensor]
) -> Tensor:
    """The change when what enters a layer's output projection is altered, by a hook there."""
    source, inputs = outcome.source, outcome.prepare(batch)
    seen = watch(source, inputs)
    module, values = seen[layer].module, seen[layer].values
    assert module is not None
    assert values is not None
    weight = find_projection(source.model, module, seen[layer].weights.shape[1] * values.shape[-1])
    calls = -1

    def hook(projection: nn.Module, entering: tuple[Tensor, ...]) -> Any:
        nonlocal calls
        calls += 1
        is_shared = len({id(one.module) for one in seen}) == 1  # ALBERT: one module, all layers
        return (alter(entering[0].clone()),) if not is_shared or calls == layer else None

    (projection,) = (m for m in source.model.modules() if _has_weight(m, weight))
    with torch.no_grad():
        before = outcome.evaluate(inputs)
        handle = projection.register_forward_pre_hook(hook)
        after = outcome.evaluate(inputs)
        handle.remove()
    return outcome.difference(before, after)


@pytest.mark.parametrize(
    ("name", "has_loss"), [*((n, True) for n in WITH_LOSS), *((n, False) for n in WITHOUT)]
)
def test_every_alteration_equals_surgery_on_the_projections_input(
    name: str, has_loss: bool
) -> None:
    outcome = outcome_of(name, has_loss)
    source, batch = outcome.source, batch_of(outcome.source)
    means = mean_outputs(source, [batch])
    found = changes_of(AblationSource(outcome, means, batch_tokens=200), batch)
    assert list(found) == [0, 1, 2]
    seen = watch(source, outcome.prepare(batch))
    is_sink = find_sinks(batch)
    for layer, head in ((0, 1), (2, 4)):
        weights, values = seen[layer].weights[:, head], seen[layer].values
        assert values is not None
        group = head * values.shape[1] // source.n_heads
        kept = weights * ~is_sink[:, None]
        moved = kept / kept.sum(-1, keepdim=True) @ values[:, group]
        if FAMILIES[name].is_causal:
            moved[:, 0] = (weights @ values[:, group])[:, 0]  # in a decoder it sees but itself
        size = values.shape[-1]
        part = slice(head * size, (head + 1) * size)
        wanted = {"zero": torch.zeros(1), "mean": means[layer, head], "sink": moved}
        for mode, value in wanted.items():

            def alter(entering: Tensor, value: Tensor = value, part: slice = part) -> Tensor:
                flat = entering.reshape(len(batch), N_TOKENS, -1)
                flat[:, :, part] = value
                return flat.reshape(entering.shape)

            expected = surgically(outcome, batch, layer, alter)
            changes = found[layer].changes[:, head, MODES.index(mode)]
            torch.testing.assert_close(changes, expected, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "distilbert"])
def test_sharing_what_lies_below_changes_nothing(name: str, monkeypatch: Any) -> None:
    outcome = outcome_of(name, has_loss=True)
    batch = batch_of(outcome.source)
    assert len(outcome.source.layer_stack) == 3
    means = mean_outputs(outcome.source, [batch])
    shared = changes_of(AblationSource(outcome, means), batch)
    monkeypatch.setattr("headscope.models.ablation.AblationSource._layers", [])
    whole = changes_of(AblationSource(outcome, means), batch)
    for layer in shared:
        torch.testing.assert_close(
            shared[layer].changes, whole[layer].changes, rtol=1e-4, atol=1e-6
        )
    assert shared[1].changes.abs().max() > 1e-5


def test_only_the_heads_asked_for_are_altered() -> None:
    outcome = outcome_of("bert", has_loss=False)
    batch = batch_of(outcome.source)
    means = mean_outputs(outcome.source, [batch])
    found = changes_of(AblationSource(outcome, means, heads={(1, 3)}), batch)
    assert found[1].is_measured.tolist() == [False, False, False, True, False]
    assert not found[0].is_measured.any()
    assert (found[1].changes[:, 3] > 0).all()
    assert found[1].changes[:, :3].abs().sum() == 0


def test_a_model_is_left_as_it_was() -> None:
    outcome = outcome_of("bert", has_loss=True)
    model = outcome.source.model
    before = model.config._attn_implementation
    batch = batch_of(outcome.source)
    means = mean_outputs(outcome.source, [batch])
    hooks = [dict(layer._forward_hooks) for layer in outcome.source.layer_stack]
    changes_of(AblationSource(outcome, means), batch)
    assert [dict(layer._forward_hooks) for layer in outcome.source.layer_stack] == hooks
    assert model.config._attn_implementation == before
    for layer in outcome.source.layer_stack:
        assert "forward" not in vars(layer)
        assert not layer._forward_pre_hooks


def test_a_forward_that_someone_else_replaced_is_called_and_kept() -> None:
    """As accelerate does it: the layer object has a `forward` of its own."""
    source = wrap_model(build_model("bert"), build_tokenizer("wordpiece"))
    batch = batch_of(source)
    means = mean_outputs(source, [batch])
    plain = changes_of(AblationSource(HiddenStateOutcome(source), means), batch)
    layers, n_calls = source.layer_stack, [0, 0, 0]

    def count_calls(i: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            n_calls[i] += 1
            return forward(*args, **kwargs)

        return counted

    replaced = [count_calls(i, layer.forward) for i, layer in enumerate(layers[:2])]
    for layer, forward in zip(layers, replaced, strict=False):
        layer.forward = forward
    found = changes_of(AblationSource(HiddenStateOutcome(source), means), batch)
    assert [layer.forward for layer in layers[:2]] == replaced
    assert "forward" not in vars(layers[2])
    assert min(n_calls[:2]) > 0
    for number, layer_change in plain.items():
        assert torch.equal(found[number].changes, layer_change.changes)


@pytest.mark.parametrize("name", ["bloom", "mpnet"])
def test_a_model_off_the_interface_says_so(name: str) -> None:
    source = source_of(name)
    with pytest.raises(
        ModelError, match="cannot be altered or weighted by norms: they are not seen"
    ):
        mean_outputs(source, [batch_of(source)])


def test_means_add_up_over_batches_report_progress_and_can_be_saved(tmp_path: Path) -> None:
    source = source_of("gpt2")
    whole, told = batch_of(source), list[int]()
    parts = (source.batch(whole.encodings[at]) for at in (slice(0, 1), slice(1, None)))
    means = mean_outputs(source, parts, told.append)
    assert told == [1, 3]
    torch.testing.assert_close(means, mean_outputs(source, [whole]))
    save_file({"means": means}, tmp_path / "means.safetensors")
    assert torch.equal(load_file(tmp_path / "means.safetensors")["means"], means)
    assert not means.is_inference()


@pytest.mark.parametrize("name", ["umt5", "gemma3n_text", "gemma4_text", "zamba2", "afmoe", "doge"])
def test_a_head_taken_away_changes_what_it_changes_in_a_full_run(name: str) -> None:
    """Where layers hand on a bias, have streams or other sizes, are shared, or lie between."""
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    family_checks.check_ablation(source, batch_of(source), name)


def test_a_layer_is_altered_by_its_own_number() -> None:
    source = wrap_model(every_family.build("zamba2"), build_tokenizer("roberta"))
    batch = batch_of(source)
    means = mean_outputs(source, [batch])
    found = changes_of(AblationSource(HiddenStateOutcome(source), means, heads={(3, 1)}), batch)
    assert [found[layer].is_measured.tolist() for layer in found] == [
        [False] * 4,
        [False, True, False, False],
    ]


def test_what_a_learned_sink_takes_stays_there() -> None:
    weights = torch.tensor([[[0.2, 0.3, 0.1]]])  # 0.4 goes to no token
    values = torch.eye(3)[None]
    is_sink = torch.tensor([[True, False, False]])
    moved = move_from_sinks(weights @ values, weights, values, is_sink)
    torch.testing.assert_close(moved, torch.tensor([[[0.0, 0.45, 0.15]]]))
