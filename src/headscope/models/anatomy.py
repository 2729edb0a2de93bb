"""What a model's attention is like, found by running the model once on a few tokens."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models.tap import TapOutput, observe_outputs, observe_tap

__all__ = [
    "PROBE", "PROBE_TOKENS", "ROUNDING", "AllSeen", "Anatomy", "NormWeights", "argument_names",
    "check_shape", "eval_mode", "examine", "find_projections", "is_close", "observe_scaled", "run",
    "weights_digest",
]  # fmt: skip

PROBE = Example("probe", text="One, two, three, four, five, six, seven, eight, nine, ten.")
PROBE_TOKENS = 16
ROUNDING = 0.02  # of a row of a few bfloat16 weights
OTHER_INPUTS = {
    "pixel_values": "images",
    "image": "images",
    "visual_feats": "images",
    "bbox": "boxes on a page",
    "input_features": "sound",
    "input_values": "sound",
}

Inputs = Mapping[str, Tensor]
Projections = Mapping[nn.Module, Float[Tensor, "output input"]]  # by the module that attends
Observe = Callable[[PreTrainedModel, Inputs, Callable[[TapOutput], None]], None]


class ShapeError(ModelError):
    """Attention that is not between the tokens of the input."""


class Anatomy(NamedTuple):
    """What a run shows of a model."""

    observe: Observe
    n_heads: int
    n_groups: int  # of heads that share their keys; 0: not known, or not the same in all layers
    numbers: tuple[int, ...]  # of the layers that have attention, as the model counts them from 0
    stack: str  # the path of the list of all layers; "" where there is no such list
    has_sink: bool  # rows sum to less than 1: the rest goes to a learned sink, which is no token
    why_fixed: str  # why what its heads give cannot be altered; "" where it can


def examine(model: PreTrainedModel, inputs: Inputs, name: str) -> Anatomy:
    """How the model's attention can be observed: by the tap, else in its outputs; or an error."""
    failures: list[str] = []
    for observe in (observe_tap, observe_outputs):
        try:
            return _examine(observe, model, inputs, failures)
        except Exception as error:  # any model file may fail here in its own way
            if isinstance(error, ShapeError) and observe is observe_tap:
                raise  # outputs may leave out just the layers of that shape
            is_ours = isinstance(error, ModelError)
            failures.append(f"{error}" if is_ours else f"{type(error).__name__}: {error}")
    _refuse_other_inputs(model, inputs, name)
    raise ModelError(
        f"The attention of {name} ({type(model).__name__}) cannot be seen: neither through "
        f"transformers' AttentionInterface ({failures[0]}) nor as output_attentions "
        f"({failures[1]}). Expected a transformer with softmax attention and the same number of "
        "heads in every layer; choose another model."
    )


def _examine(
    observe: Observe, model: PreTrainedModel, inputs: Inputs, failures: Sequence[str]
) -> Anatomy:
    seen: list[TapOutput] = []
    run(observe, model, inputs, seen.append)
    if not seen:
        raise ModelError("no layer uses it" if observe is observe_tap else "it has none")
    n_heads = _count_heads(model, seen, inputs["input_ids"].shape[1])
    adds_values, why = all(_adds_values(output, model.dtype) for output in seen), ""
    if failures:
        why = f"they are not seen through transformers' AttentionInterface ({failures[0]})"
    elif not adds_values:
        why = "a head's output is not its weights times the values"
        scaled = list(map(scale_rows, seen))
        if all(_adds_values(output, model.dtype) for output in scaled):
            observe, seen, adds_values = observe_scaled, scaled, True
    has_sink = _find_sink(seen, adds_values)
    stack, numbers = _number_layers(model, [output.module for output in seen])
    groups = {0 if output.values is None else int(output.values.shape[1]) for output in seen}
    n_groups = groups.pop() if len(groups) == 1 else 0
    return Anatomy(observe, n_heads, n_groups, numbers, stack, has_sink, why)


def observe_scaled(
    model: PreTrainedModel, inputs: Inputs, show: Callable[[TapOutput], None]
) -> None:
    """As the tap, of a model that scales what its heads give, row by row (Granite's sink)."""
    observe_tap(model, inputs, lambda output: show(scale_rows(output)))


def scale_rows(output: TapOutput) -> TapOutput:
    """The weights scaled as the output is: each row by one number, found by least squares."""
    if output.values is None or output.output is None:
        return output
    summed, given = _sum_values(output), output.output
    squares = (summed * summed).sum(-1)  # [example, query, head]
    scale = (given * summed).sum(-1) / squares.clamp_min(torch.finfo(squares.dtype).tiny)
    return output._replace(weights=output.weights * scale.transpose(1, 2)[..., None])


class AllSeen(Exception):
    """The last layer was seen: no error, but the rest of the model need not run."""


def run(
    observe: Observe, model: PreTrainedModel, inputs: Inputs, show: Callable[[TapOutput], None]
) -> None:
    """Run the model without dropout and cache, and show what is observed of each layer.

    It stops where `show` raises `AllSeen`.
    """
    extra: dict[str, Any] = {"use_cache": False} if "use_cache" in argument_names(model) else {}
    with eval_mode(model), suppress(AllSeen):
        observe(model, {**inputs, **extra}, show)


def check_shape(weights: Tensor, n_tokens: int, name: str) -> None:
    """An error for anything but a weight for each pair of tokens."""
    if weights.ndim != 4 or weights.shape[-2:] != (n_tokens, n_tokens):
        raise ShapeError(
            f"{name} returns attention of shape {tuple(weights.shape)} for {n_tokens} tokens. "
            "Expected one weight for each pair of tokens; choose another model."
        )


def _count_heads(model: PreTrainedModel, seen: Sequence[TapOutput], n_tokens: int) -> int:
    """The heads of each layer, if they are the same in all, and each layer was seen once."""
    for output in seen:
        check_shape(output.weights, n_tokens, type(model).__name__)
    heads = {output.weights.shape[1] for output in seen}
    if len(heads) > 1:
        raise ModelError(f"layers have different numbers of heads: {sorted(heads)}")
    most = getattr(model.config, "num_hidden_layers", None) or len(seen)
    if len(seen) > most:
        raise ModelError(f"{most} layers call attention {len(seen)} times")
    return heads.pop()


def _find_sink(seen: Sequence[TapOutput], adds_values: bool) -> bool:
    """Whether rows miss some of a sum of 1 that goes to no token; an error for other sums.

    The rest has no value vector, so what a head gives is the sum over tokens alone.
    """
    has_sink = False
    for weights in (output.weights for output in seen):
        sums = weights.sum(-1)
        if weights.min() < 0 or sums.max() > 1 + ROUNDING:
            raise ModelError(
                f"it returns scores, not weights: a row of them sums to {float(sums.max()):.3g}, "
                f"the lowest is {float(weights.min()):.3g}"
            )
        has_sink |= bool(sums.min() < 1 - ROUNDING)
        if has_sink and not adds_values:
            raise ModelError(f"a row of weights sums to {float(sums.min()):.3g} instead of 1")
    return has_sink


def _adds_values(output: TapOutput, computed_in: torch.dtype) -> bool:
    if output.values is None or output.output is None:
        return False
    return is_close(output.output, _sum_values(output), computed_in)


def _sum_values(output: TapOutput) -> Float[Tensor, "example query head part"]:
    assert output.values is not None
    n_shared = output.weights.shape[1] // output.values.shape[1]
    values = output.values.repeat_interleave(n_shared, dim=1)
    return (output.weights @ values).transpose(1, 2)


def is_close(given: Tensor, expected: Tensor, computed_in: torch.dtype) -> bool:
    """Whether two arrays are the same up to rounding, which is coarse in half precision."""
    if given.shape != expected.shape:
        return False
    is_half = computed_in.itemsize < 4
    error = (given.float() - expected.float()).abs().max()
    return bool(error <= (0.05 if is_half else 1e-3) * expected.float().abs().max())


def _number_layers(
    model: nn.Module, modules: Sequence[nn.Module | None]
) -> tuple[str, tuple[int, ...]]:
    """The path of the model's list of layers, and the place there of each module that attends.

    A hybrid's list has layers of other kinds between. Where no list has them all in order (ALBERT
    runs one layer again and again), the path is empty and layers are counted as they come.
    """
    paths: dict[nn.Module, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(module, []).append(path)
    # A module that several layers share has a path in each of them, and is called in that order.
    called = [paths[module].pop(0) for module in modules if module is not None and paths[module]]
    places = [_split_at_number(path) for path in called]
    numbers = [number for _, number in places]
    is_plain = len(places) == len(modules) and len({stack for stack, _ in places}) == 1
    if is_plain and all(a < b for a, b in pairwise([-1, *numbers])):
        return places[0][0], tuple(numbers)
    return "", tuple(range(len(modules)))


def _split_at_number(path: str) -> tuple[str, int]:
    """The path of a list and the place in it; -1 for a path without a number.

    >>> _split_at_number("encoder.layer.3.attention.self")
    ('encoder.layer', 3)
    """
    parts = path.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdecimal()), None)
    return (path, -1) if at is None else (".".join(parts[:at]), int(parts[at]))


def _refuse_other_inputs(model: PreTrainedModel, inputs: Inputs, name: str) -> None:
    try:
        with eval_mode(model), torch.inference_mode():
            model(**inputs)
    except Exception as error:
        known = argument_names(model)
        needed = {arg: what for arg, what in OTHER_INPUTS.items() if arg in known}
        if not needed:
            raise ModelError(
                f"{name} ({type(model).__name__}) does not run on text ({type(error).__name__}: "
                f"{error}). Expected a model that takes {', '.join(inputs)}; choose another model."
            ) from error
        what = ", ".join(f"{what} ({arg})" for arg, what in needed.items())
        raise ModelError(
            f"{name} ({type(model).__name__}) needs {what}, and does not run on text alone "
            f"({type(error).__name__}: {error}). Expected a model that reads text; choose another."
        ) from error


def argument_names(model: nn.Module) -> frozenset[str]:
    """What the model can be called with."""
    return frozenset(inspect.signature(model.forward).parameters)


_in_eval_mode: ContextVar[nn.Module | None] = ContextVar("in_eval_mode", default=None)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model without dropout, and as it was again afterwards; within itself it costs nothing."""
    if _in_eval_mode.get() is model:
        yield
        return
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    token = _in_eval_mode.set(model)
    try:
        yield
    finally:
        _in_eval_mode.reset(token)
        for module in training:
            module.training = True


@dataclass(frozen=True)
class NormWeights:
    """Norm-weighted attention (Kobayashi et al. 2020): weights as shares of norms; rows sum to 1.

    A head's output at a query is the sum over keys of a[q,k] f(x[k]), where f takes a token's value
    vector through the head's part of the output projection. ||a f(x)|| is what a token contributes:
    attention to one whose vector is tiny does nothing.
    """

    projections: Projections = field(repr=False)
    _products: dict[nn.Module, Tensor] = field(default_factory=dict, repr=False)

    def compute(self, output: TapOutput) -> Float[Tensor, "example head query key"]:
        """`||a f(x)||` of every pair of tokens, over its sum along the row.

        A row that adds nothing at all keeps its weights.
        """
        assert output.module is not None  # of the tap, by which the projections were found
        assert output.values is not None
        module, n_heads = output.module, output.weights.shape[1]
        values = output.values.float().repeat_interleave(n_heads // output.values.shape[1], dim=1)
        if module not in self._products:  # ||W v|| through W^T W: a product of a head's small size
            projection = self.projections[module].float()
            heads = projection.reshape(len(projection), n_heads, -1)  # [out, head, part]
            self._products[module] = torch.einsum("ohd,ohe->hde", heads, heads)
        squares = torch.einsum("ehkd,hdf,ehkf->ehk", values, self._products[module], values)
        norms = squares.clamp_min(0).sqrt()  # [example, head, key]
        weighted = output.weights * norms.to(output.weights.dtype)[:, :, None, :]
        total = weighted.sum(-1, keepdim=True)
        shares = weighted / total.clamp_min(torch.finfo(total.dtype).tiny)
        return torch.where(total > 0, shares, output.weights)


def find_projections(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Projections:
    """The output projection of each module that attends, found by running the model.

    It is the first linear layer to take what the heads give, as it is. Where something stands
    between them, as a gate or a norm, there is none, and what a token adds is not known.
    """
    attended: list[TapOutput] = []
    projections: dict[nn.Module, Tensor] = {}

    def look(linear: Any, entering: tuple[Any, ...]) -> None:
        output = attended[-1] if attended else None
        if output is None or output.module is None or output.module in projections or not entering:
            return
        assert output.output is not None
        expected = output.output.flatten(2)  # [example, query, input]
        if entering[0].numel() == expected.numel() and is_close(
            entering[0].reshape(expected.shape), expected, model.dtype
        ):
            weight = linear.weight.detach()
            is_transposed = isinstance(linear, Conv1D)  # as GPT-2 stores it
            projections[output.module] = weight.T if is_transposed else weight

    linears = [module for module in model.modules() if isinstance(module, (nn.Linear, Conv1D))]
    hooks = [linear.register_forward_pre_hook(look) for linear in linears]
    try:
        run(observe_tap, model, inputs, attended.append)
    finally:
        for hook in hooks:
            hook.remove()
    missing = {type(o.module).__name__ for o in attended if o.module not in projections}
    if missing:
        raise ModelError(
            f"--weights norm cannot be used with {type(model).__name__}: something stands between "
            f"the heads of {' and '.join(sorted(missing))} and their projection, such as a gate or "
            "a norm. Expected a linear layer that takes the heads' output; use --weights attention."
        )
    return projections


def weights_digest(model: nn.Module) -> str:
    """The sha256 of all weights by name: the same model gives the same digest from any place.

    A pooler is left out: attention does not depend on it, and where the checkpoint has none it is
    random, other in every load.
    """
    digest = sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if "pooler" in name:
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.is_meta:  # it lies in memory or on disk until it is used
            from accelerate.utils.modeling import (
                align_module_device,
            )  # the extra 'big' put it there

            path, _, leaf = name.rpartition(".")
            with align_module_device(model.get_submodule(path), torch.device("cpu")):
                values = getattr(model.get_submodule(path), leaf).detach().clone()
        else:
            values = tensor
        digest.update(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
