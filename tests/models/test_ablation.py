"""Ablation through the tap equals surgery on the model, and running copies equals running each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headscope.data.change import LayerChange
from headscope.data.encoding import Batch
from headscope.models.ablation import MODES, AblationSource, find_sinks, mean_outputs
from headscope.models.answers import Answers, HiddenAnswers, LossAnswers
from headscope.models.language import build_task
from headscope.models.loaded import LoadedModel
from headscope.models.norms import find_projection
from headscope.models.prefix import find_layers
from headscope.models.tap import Seen, observe_tap
from tests.models.test_families import EXAMPLES, N_TOKENS, source_of
from tests.models.test_gradients import language_model

WITH_LOSS = ["bert", "roberta", "albert", "distilbert", "modernbert", "gpt2", "llama", "opt"]
WITHOUT = ["bert", "albert", "gpt2", "llama"]


def answers_of(name: str, has_loss: bool) -> Answers:
    return (
        LossAnswers(build_task(language_model(name)))
        if has_loss
        else HiddenAnswers(source_of(name))
    )


def batch_of(source: LoadedModel) -> Batch:
    return source.batch(source.encode(EXAMPLES, N_TOKENS))


def changes_of(source: AblationSource, batch: Batch) -> dict[int, LayerChange]:
    seen: dict[int, LayerChange] = {}
    source.attend(batch, lambda change: seen.update({change.layer: change}))
    return seen


def watch(source: LoadedModel, asked: dict[str, Tensor]) -> list[Seen]:
    seen: list[Seen] = []
    inputs = {name: value for name, value in asked.items() if name != "targets"}
    observe_tap(source.model, inputs, seen.append)
    return seen


def _has_weight(module: nn.Module, weight: Tensor) -> bool:
    own = getattr(module, "weight", None)
    return isinstance(own, Tensor) and own.data_ptr() == weight.data_ptr()


def surgically(
    answers: Answers, batch: Batch, layer: int, alter: Callable[[Tensor], Tensor]
) -> Tensor:
    """The change when what enters a layer's output projection is altered, by a hook there."""
    source, asked = answers.source, answers.ask(batch)
    seen = watch(source, asked)
    module, values = seen[layer].module, seen[layer].values
    assert module is not None
    assert values is not None
    weight = find_projection(source.model, module, seen[layer].weights.shape[1] * values.shape[-1])
    calls = -1

    def hook(projection: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        nonlocal calls
        calls += 1
        is_shared = len({id(one.module) for one in seen}) == 1  # ALBERT: one module, all layers
        return (alter(inputs[0].clone()),) if not is_shared or calls == layer else None

    (projection,) = (m for m in source.model.modules() if _has_weight(m, weight))
    with torch.no_grad():
        before = answers.answer(asked)
        handle = projection.register_forward_pre_hook(hook)
        after = answers.answer(asked)
        handle.remove()
    return answers.change(before, after)


@pytest.mark.parametrize(
    ("name", "has_loss"), [*((n, True) for n in WITH_LOSS), *((n, False) for n in WITHOUT)]
)
def test_every_alteration_equals_surgery_on_the_projections_input(
    name: str, has_loss: bool
) -> None:
    answers = answers_of(name, has_loss)
    source, batch = answers.source, batch_of(answers.source)
    means = mean_outputs(source, [batch])
    found = changes_of(AblationSource(answers, means, most_tokens=200), batch)
    assert list(found) == [0, 1, 2]
    seen = watch(source, answers.ask(batch))
    is_sink = find_sinks(batch)
    for layer, head in ((0, 1), (2, 4)):
        weights, values = seen[layer].weights[:, head], seen[layer].values
        assert values is not None
        group = head * values.shape[1] // source.n_heads
        kept = weights * ~is_sink[:, None]
        moved = kept / kept.sum(-1, keepdim=True) @ values[:, group]
        if source.encoder.tokenizer.sep_token is None or (is_sink[:, 0]).any():
            moved[:, 0] = (weights @ values[:, group])[:, 0]  # in a decoder it sees but itself
        size = values.shape[-1]
        part = slice(head * size, (head + 1) * size)
        wanted = {"zero": torch.zeros(1), "mean": means[layer, head], "sink": moved}
        for mode, value in wanted.items():

            def alter(entering: Tensor, value: Tensor = value, part: slice = part) -> Tensor:
                flat = entering.reshape(len(batch), N_TOKENS, -1)
                flat[:, :, part] = value
                return flat.reshape(entering.shape)

            expected = surgically(answers, batch, layer, alter)
            changes = found[layer].changes[:, head, MODES.index(mode)]
            torch.testing.assert_close(changes, expected, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "distilbert"])
def test_sharing_what_lies_below_changes_nothing(name: str, monkeypatch: Any) -> None:
    answers = answers_of(name, has_loss=True)
    batch = batch_of(answers.source)
    assert len(find_layers(answers.source.model, 3)) == 3
    means = mean_outputs(answers.source, [batch])
    shared = changes_of(AblationSource(answers, means), batch)
    monkeypatch.setattr("headscope.models.ablation.find_layers", lambda model, n: [])
    whole = changes_of(AblationSource(answers, means), batch)
    for layer in shared:
        torch.testing.assert_close(
            shared[layer].changes, whole[layer].changes, rtol=1e-4, atol=1e-6
        )
    assert shared[1].changes.abs().max() > 1e-5


def test_only_the_heads_asked_for_are_altered() -> None:
    answers = answers_of("bert", has_loss=False)
    batch = batch_of(answers.source)
    means = mean_outputs(answers.source, [batch])
    found = changes_of(AblationSource(answers, means, heads={(1, 3)}), batch)
    assert found[1].is_measured.tolist() == [False, False, False, True, False]
    assert not found[0].is_measured.any()
    assert (found[1].changes[:, 3] > 0).all()
    assert found[1].changes[:, :3].abs().sum() == 0


def test_a_model_is_left_as_it_was() -> None:
    answers = answers_of("bert", has_loss=True)
    model = answers.source.model
    before = model.config._attn_implementation
    batch = batch_of(answers.source)
    means = mean_outputs(answers.source, [batch])
    hooks = [dict(layer._forward_hooks) for layer in find_layers(model, 3)]
    changes_of(AblationSource(answers, means), batch)
    assert [dict(layer._forward_hooks) for layer in find_layers(model, 3)] == hooks
    assert model.config._attn_implementation == before
    for layer in find_layers(model, 3):
        assert "forward" not in vars(layer)
        assert not layer._forward_pre_hooks
