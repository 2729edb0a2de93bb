"""Norms: what the tap gives equals the sizes of the vectors that the model really adds up."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.anatomy import NormWeights, find_projections
from headscope.models.loaded import wrap_model
from headscope.models.tap import TapOutput, observe_tap
from tests.models import every_family
from tests.models.surgery import find_projection
from tests.models.test_families import batch_of, see, source_of
from tests.models.tiny import FAMILIES, build_tokenizer

ON_INTERFACE = [name for name in FAMILIES if source_of(name).describe()["seen_by"] == "tap"]


def norms_of(name: str) -> NormWeights:
    return NormWeights(find_projections(source_of(name).model, batch_of(name).inputs))


def add_up(seen: TapOutput, projection: Tensor) -> Tensor:
    """a f(x) of every head, query and key, as vectors: [example, head, query, key, hidden]."""
    assert seen.values is not None
    n_heads = seen.weights.shape[1]
    values = seen.values.repeat_interleave(n_heads // seen.values.shape[1], dim=1)
    parts = projection.reshape(len(projection), n_heads, -1)  # [hidden, head, part]
    added = torch.stack(
        [values[:, head] @ parts[:, head].T for head in range(n_heads)], dim=1
    )  # [example, head, key, hidden]
    return seen.weights[..., None] * added[:, :, None]


def watch(name: str) -> tuple[list[TapOutput], list[Tensor]]:
    """What the tap saw of a model, and what came out of its output projections."""
    source, batch = source_of(name), batch_of(name)
    seen: list[TapOutput] = []
    observe_tap(source.model, batch.inputs, seen.append)
    outputs: list[Tensor] = []
    hooks = []
    for one in {id(s.module): s for s in seen}.values():
        assert one.module is not None
        assert one.values is not None
        weight = find_projection(
            source.model, one.module, one.weights.shape[1] * one.values.shape[-1]
        )
        for module in source.model.modules():
            own = getattr(module, "weight", None)
            if isinstance(own, nn.Parameter) and own.data_ptr() == weight.data_ptr():
                hooks.append(
                    module.register_forward_hook(
                        lambda m, _, out: outputs.append(out - (0 if m.bias is None else m.bias))
                    )
                )
    observe_tap(source.model, batch.inputs, lambda _: None)
    for hook in hooks:
        hook.remove()
    return seen, outputs


@pytest.mark.parametrize("name", ON_INTERFACE)
def test_vectors_of_all_keys_and_heads_add_up_to_what_the_layer_gives(name: str) -> None:
    source = source_of(name)
    seen, outputs = watch(name)
    assert len(seen) == len(outputs) == source.n_layers
    for one, output in zip(seen, outputs, strict=True):
        assert one.module is not None
        assert one.values is not None
        n_inputs = one.weights.shape[1] * one.values.shape[-1]
        added = add_up(one, find_projection(source.model, one.module, n_inputs))
        total = added.sum(dim=(1, 3))  # [example, query, hidden]
        torch.testing.assert_close(total, output.reshape(total.shape), rtol=1e-4, atol=1e-5)
        norms = added.norm(dim=-1)
        expected = norms / norms.sum(-1, keepdim=True)
        found = norms_of(name).compute(one)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_weighted_by_norms_shows_rows_that_sum_to_one(name: str) -> None:
    plain, weighed = source_of(name), replace(source_of(name), weights="norm")
    batch = batch_of(name)
    for before, after in zip(see(plain, batch), see(weighed, batch), strict=True):
        torch.testing.assert_close(after.weights.sum(-1), torch.ones_like(after.weights[..., 0]))
        assert not torch.allclose(before.weights, after.weights, atol=1e-3)
        assert torch.equal(before.weights == 0, after.weights == 0)  # what is unseen stays so


def test_a_model_off_the_interface_says_so() -> None:
    off = next(name for name in FAMILIES if name not in ON_INTERFACE)
    with pytest.raises(ModelError, match="not seen through transformers' AttentionInterface"):
        see(replace(source_of(off), weights="norm"), batch_of(off))


def test_an_unknown_kind_of_weights_is_refused() -> None:
    with pytest.raises(ModelError, match="Expected attention or norm"):
        replace(source_of("bert"), weights="norms")


@pytest.mark.parametrize(
    ("name", "between"), [("qwen3_next", "a gate"), ("bitnet", "a norm"), ("jetmoe", "experts")]
)
def test_a_model_with_something_between_heads_and_projection_is_refused(
    name: str, between: str
) -> None:
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    with pytest.raises(ModelError, match="something stands between the heads"):
        replace(source, weights="norm").check_weights()


def test_a_row_that_adds_nothing_keeps_its_weights() -> None:
    module = nn.Linear(4, 4)
    weights, values = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]), torch.zeros(1, 1, 2, 4)
    values[:, :, 1] = 1.0  # the first token's vector is nothing, and the first row sees it alone
    seen = TapOutput(weights, torch.tensor([1, 2]), module, values)
    found = NormWeights({module: module.weight.detach()}).compute(seen)
    assert found.tolist() == [[[[1.0, 0.0], [0.0, 1.0]]]]
