"""What headscope can do with a family: found by running a tiny model of it, and checked against
what the model itself does."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel
from transformers.models.auto import modeling_auto as auto

from headscope.data.attention import LayerAttention, LayerChange, LayerGradient
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models.ablation import MODES, AblationSource, mean_outputs
from headscope.models.anatomy import find_projections
from headscope.models.gradients import GradientSource
from headscope.models.language import HiddenStateOutcome, build_task
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.tap import TapOutput, observe_tap
from tests.models.every_family import build, build_config
from tests.models.tiny import SENTENCES, build_tokenizer

__all__ = ["NO_HEAD", "Answer", "examine"]

N_TOKENS = 13
LONGEST = 200  # characters of a reason
NO_HEAD = "no head"
EXAMPLES = [Example("one", text=SENTENCES[0]), Example("two", text=SENTENCES[2])]


@dataclass(frozen=True)
class Answer:
    """What headscope can do with a family: "yes", or why not; "" where that was not asked."""

    family: str
    seen: str  # "tap", "fallback" or "refused"
    layers: str = ""
    norm: str = ""
    gradient: str = ""
    ablation: str = ""
    why: str = ""  # of a refusal
    is_wrong: bool = False  # what was measured is not what the model does


def examine(family: str) -> Answer:
    """What headscope can do with a tiny model of the family."""
    try:
        model = build(family, attention="eager")  # as `load_model` does
    except Exception as error:  # whatever a model file says of a tiny model, or of what it needs
        return Answer(family, "not tried", why=f"{type(error).__name__}: {shorten(error, family)}")
    try:
        source = wrap_model(model, build_tokenizer("roberta"), family)
        seen = "tap" if source.describe()["seen_by"] == "tap" else "fallback"
    except ModelError as error:
        return Answer(family, "refused", why=shorten(error, family))
    batch = source.batch(source.encode(EXAMPLES, N_TOKENS))
    try:
        check_attention(source, batch, family)
        norm, gradient, ablation = (
            ask(check, source, batch, family)
            for check in (check_norm, check_gradient, check_ablation)
        )
    except ModelError as error:  # at another length than the probe's
        return Answer(family, "refused", why=shorten(error, family))
    except AssertionError as error:
        return Answer(family, seen, why=f"WRONG: {' '.join(str(error).split())}", is_wrong=True)
    except Exception as error:  # on the page, so that the rest is tried too
        return Answer(family, seen, why=f"WRONG: {type(error).__name__}: {error}", is_wrong=True)
    return Answer(family, seen, name_layers(source), norm, gradient, ablation)


def ask(check: Callable[..., None], source: LoadedModel, batch: Batch, family: str) -> str:
    try:
        check(source, batch, family)
    except ModelError as error:
        return shorten(error, family)
    return "yes"


def check_attention(source: LoadedModel, batch: Batch, family: str) -> None:
    """Weights are the model's own, whatever the batch, and with the sink sum to 1."""
    together = see(source, batch)
    for place, encoding in enumerate(batch.encodings):
        for alone, layer in zip(see(source, source.batch([encoding])), together, strict=True):
            torch.testing.assert_close(alone.weights[0], layer.weights[place], rtol=0, atol=1e-4)
    for layer in together:
        sums = layer.with_sink().sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-4)
    own = own_attentions(build(family, attention="eager"), batch)
    if len(own) == len(together):  # a few give none, or also what their other layers do
        for given, layer in zip(own, together, strict=True):
            scale = layer.weights.sum(-1, keepdim=True) if source.scales_rows else 1
            torch.testing.assert_close(layer.weights, given * scale, rtol=0, atol=1e-6)
            assert source.scales_rows or torch.equal(given, layer.weights), "weights"


def own_attentions(model: PreTrainedModel, batch: Batch) -> list[Tensor]:
    inputs = dict(batch.inputs)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :2]
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    maps = output.get("encoder_attentions") or output.get("attentions") or ()
    return [weights for weights in maps if weights is not None]


def check_norm(source: LoadedModel, batch: Batch, family: str) -> None:
    """What tokens add, added up, is what the projection gives."""
    weighted = replace(source, weights="norm")
    weighted.check_weights()
    see(weighted, batch)
    outputs: list[Tensor] = []
    seen: list[TapOutput] = []
    weights = {w.data_ptr() for w in find_projections(source.model, batch.inputs).values()}
    hooks = [
        module.register_forward_hook(
            lambda m, _, out: outputs.append(out if m.bias is None else out - m.bias)
        )
        for module in source.model.modules()
        if isinstance(getattr(module, "weight", None), Tensor)
        and module.weight.data_ptr() in weights
    ]
    observe_tap(source.model, batch.inputs, seen.append)
    for hook in hooks:
        hook.remove()
    projections = find_projections(source.model, batch.inputs)
    assert len(outputs) == len(seen), "calls of projections"
    for layer, output in zip(seen, outputs, strict=True):
        total = layer.output.flatten(2) @ projections[layer.module].T
        torch.testing.assert_close(total, output.reshape(total.shape), rtol=1e-3, atol=1e-4)


def check_gradient(source: LoadedModel, batch: Batch, family: str) -> None:
    """Gradients are autograd's, with all maps kept."""
    if build_config(family).is_encoder_decoder:
        raise ModelError(NO_HEAD)
    if family in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        kind: Any = AutoModelForCausalLM
    elif family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        kind = AutoModelForMaskedLM
    else:
        raise ModelError(NO_HEAD)
    task = build_task(wrap_model(build(family, kind, "eager"), source.encoder.tokenizer, family))
    found: dict[int, LayerGradient] = {}
    GradientSource(task).attend(batch, lambda layer: found.update({layer.layer: layer}))
    maps: list[Tensor] = []

    def keep(module: Any, output: Tensor, weights: Tensor) -> Tensor:
        weights.retain_grad()
        maps.append(weights)
        return output

    model = task.source.model
    inputs, targets = task.prepare(batch)
    with eager_followed_by(model, keep), torch.enable_grad():
        task.losses(inputs, targets).sum().backward()
    for layer, weights in enumerate(maps):
        is_visible = found[layer].is_visible
        expected = weights.grad.abs() * (1 if is_visible is None else is_visible)
        scale = float(expected.max())
        torch.testing.assert_close(
            found[layer].sizes, expected, rtol=1e-3, atol=1e-3 * scale + 1e-9
        )


def check_ablation(source: LoadedModel, batch: Batch, family: str) -> None:
    """Taking a head away changes what it changes in a run from the bottom to the top."""
    outcome = HiddenStateOutcome(source)
    ablation = AblationSource(outcome, mean_outputs(source, [batch]))
    found: dict[int, LayerChange] = {}
    ablation.attend(batch, lambda change: found.update({change.layer: change}))
    inputs, head = outcome.prepare(batch), 1
    with torch.no_grad(), eager_followed_by(source.model, lambda module, output, weights: output):
        before = outcome.evaluate(inputs)
    for layer, change in found.items():
        with torch.no_grad(), eager_followed_by(source.model, drop_head(layer, head)):
            expected = outcome.difference(before, outcome.evaluate(inputs))
        seen = change.changes[:, head, MODES.index("zero")]
        torch.testing.assert_close(seen, expected, rtol=1e-2, atol=1e-5)


def drop_head(layer: int, head: int) -> Callable[[Any, Tensor, Tensor], Tensor]:
    """Takes a head's output away from the attention of one layer."""
    calls = count()

    def drop(module: Any, output: Tensor, weights: Tensor) -> Tensor:
        if next(calls) == layer:
            output = output.clone()
            output[:, :, head] = 0
        return output

    return drop


@contextmanager
def eager_followed_by(
    model: PreTrainedModel, follow: Callable[[Any, Tensor, Tensor], Tensor]
) -> Iterator[None]:
    """The model with its own eager attention, whose output goes through `follow`."""
    functions = {
        (file, name): function
        for module in model.modules()
        for parent in type(module).__mro__
        for file in [sys.modules[parent.__module__]]
        for name, function in vars(file).items()
        if name.endswith("eager_attention_forward")
    }
    before = model.config._attn_implementation

    def wrap(eager: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Any]:
        def attend(module: Any, *args: Any, **options: Any) -> tuple[Tensor, Tensor]:
            output, weights = eager(module, *args, **options)
            return follow(module, output, weights), weights

        return attend

    model.set_attn_implementation("eager")
    for (file, name), eager in functions.items():
        setattr(file, name, wrap(eager))
    try:
        yield
    finally:
        for (file, name), eager in functions.items():
            setattr(file, name, eager)
        model.set_attn_implementation(before)


def see(source: LoadedModel, batch: Batch) -> list[LayerAttention]:
    seen: list[LayerAttention] = []
    source.attend(batch, seen.append)
    return seen


def name_layers(source: LoadedModel) -> str:
    """Which of its layers have attention, where not all of them have."""
    n_all = len(source.layer_stack) or source.n_layers
    sink = ", learned sink" * source.has_sink
    if source.n_layers == n_all:
        return f"all{sink}"
    numbers = ", ".join(str(number + 1) for number in source.layer_numbers)
    return f"{numbers} of {n_all}{sink}"


def shorten(error: Exception, family: str) -> str:
    """The reason alone: what was expected instead is the same for all."""
    reason = " ".join(str(error).split()).replace("|", "/").replace(f"{family} (", "(")
    both = re.search(r"AttentionInterface \((.*)\) nor as output_attentions \((.*)\)\. Exp", reason)
    if both and both[1] != both[2]:
        reason = f"the tap: {both[1].partition('. Expected')[0]}; outputs: {both[2]}"
    elif both:
        reason = both[1]
    for start in ("cannot be used with", "cannot be altered or weighted by norms"):
        reason = re.sub(rf"^.*{start}[^:]*: ", "", reason)
    within = re.search(r"AttentionInterface \((.*)\)", reason)
    reason = within[1] if within else reason
    reason = reason.replace("no layer uses it", "no layer uses the interface")
    return re.split(r"\. Expected| but it was not found", reason)[0][:LONGEST]
