"""Only attention that is the plain formula is computed by compiled code."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.kernels.attention import find_product
from headscope.models import slices
from headscope.models.loaded import LoadedModel, wrap_model
from tests.models.test_families import N_TOKENS, batch_of
from tests.models.tiny import FAMILIES, build_model, build_tokenizer

pytestmark = pytest.mark.skipif(find_product() is None, reason="torch's BLAS cannot be called")


def count_compiled(source: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many slices of one batch compiled code computes."""
    made: list[int] = []
    own = slices.attend_compiled

    def record(room: Tensor, query: Tensor, *args: Any) -> Any:
        made.append(len(query))
        return own(room, query, *args)

    _ = source._slicing  # the model is examined before
    monkeypatch.setattr(slices, "attend_compiled", record)
    examples = [encoding.example for encoding in batch_of("bert").encodings]
    batch = source.batch(source.encode(examples[:1], N_TOKENS))
    source.read(batch, [], 128, lambda layer: None)
    return len(made)


def source_of(name: str) -> LoadedModel:
    return wrap_model(build_model(name), build_tokenizer(FAMILIES[name].tokenizer), name)


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "opt", "modernbert", "gpt_neox"])
def test_the_plain_formula_is_computed_by_compiled_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(name)
    assert count_compiled(source, monkeypatch) == source.n_layers


def test_a_soft_cap_is_left_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_compiled(source_of("gemma2"), monkeypatch) == 0


@pytest.mark.parametrize("change", ["cap", "sink", "temperature"])
def test_a_file_that_computes_something_else_is_left_to_itself(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.bert import modeling_bert

    def other(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        scaling: float, **options: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        scores = query @ key.mT * scaling * (1.001 if change == "temperature" else 1)
        scores = 50 * torch.tanh(scores / 50) if change == "cap" else scores
        scores = scores if mask is None else scores + mask
        sink = scores.new_zeros(*scores.shape[:-1], 1)
        weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
        weights = weights if change == "sink" else scores.softmax(-1)
        return (weights @ value).transpose(1, 2), weights

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", other)
    assert count_compiled(source_of("bert"), monkeypatch) == 0


def test_double_precision_is_left_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of("bert")
    source.model.double()
    assert count_compiled(source, monkeypatch) == 0
