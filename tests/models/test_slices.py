"""Maps read slice by slice are those of the whole, for every family, and however they are cut."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from headscope.analyses.entropy import Entropy
from headscope.data import reading
from headscope.data.attention import LayerAttention
from headscope.data.example import Example
from headscope.data.reading import SUMS, MapSlice, Reading
from headscope.engine.measure import measure_examples
from headscope.models import plain, slices
from headscope.models.loaded import wrap_model
from headscope.models.slices import Slicing
from headscope.options import RunOptions
from tests.models.test_families import N_TOKENS, batch_of, each_family, seen_of, source_of
from tests.models.tiny import FAMILIES, build_model, build_tokenizer


class Join(Reading):
    """Puts slices together again."""

    def begin(self, layer: LayerAttention) -> Tensor:
        return torch.zeros(layer.weights.shape, dtype=layer.weights.dtype)

    def add(self, found: Tensor, part: MapSlice) -> None:
        found[part.examples, :, part.rows, : part.weights.shape[-1]] = part.weights


JOIN = Join()


def read(source: Any, batch: Any, n_rows: int) -> list[LayerAttention]:
    seen: list[LayerAttention] = []
    source.read(batch, [JOIN, SUMS], n_rows, seen.append)
    return seen


@each_family
@pytest.mark.parametrize("n_rows", [1, 7, 128])
def test_slices_of_a_family_make_up_its_maps(name: str, n_rows: int) -> None:
    compare_with_whole(name, n_rows)


@each_family
def test_slices_without_compiled_code_make_up_the_maps_of_a_family(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (plain, reading):
        monkeypatch.setattr(module, "is_compiled", lambda weights: False)
    compare_with_whole(name, 7)


def compare_with_whole(name: str, n_rows: int) -> None:
    whole = seen_of(name)
    sliced = read(source_of(name), batch_of(name), n_rows)
    assert [layer.layer for layer in sliced] == [layer.layer for layer in whole]
    for one, other in zip(sliced, whole, strict=True):
        sums = (layer.read(SUMS).sums for layer in (one, other))
        pairs = [(one.read(JOIN), other.weights), *zip(*sums, strict=True)]
        for found, expected in pairs:  # later layers of random models magnify rounding
            torch.testing.assert_close(found, expected, atol=5e-4, rtol=0)
        assert torch.equal(one.visible, other.visible)
        assert one.is_finite().all()


@each_family
def test_a_family_on_the_interface_is_read_in_slices_with_masks_of_their_own(name: str) -> None:
    source = source_of(name)
    is_sliced = source.describe()["seen_by"] == "tap" and name != "t5"  # which has a bias per query
    assert source._slicing is (Slicing.ALL if is_sliced else Slicing.NONE)


def test_a_model_with_very_large_scores_is_read_in_slices_too() -> None:
    model = build_model("bert")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "key.bias" in name:  # large and alike scores, whose rounding alone moves weights
                weight.fill_(3e4)
    source = wrap_model(model, build_tokenizer("wordpiece"))
    assert source._slicing is Slicing.ALL


def test_no_mask_is_made_for_the_whole_input(monkeypatch: pytest.MonkeyPatch) -> None:
    source, batch, made = source_of("llama"), batch_of("llama"), []
    assert source._slicing is Slicing.ALL
    make = slices.eager_mask

    def record(**recipe: Any) -> Any:
        made.append(recipe["q_length"])
        return make(**recipe)

    monkeypatch.setattr(slices, "eager_mask", record)
    read(source, batch, 4)
    assert set(made) == {4, 1}  # 13 rows are 4 + 4 + 4 + 1


def test_causal_rows_are_computed_with_the_keys_they_see_alone() -> None:
    widths: list[int] = []

    class Widths(Join):
        def add(self, found: Tensor, part: MapSlice) -> None:
            widths.append(part.weights.shape[-1])

    source, batch = source_of("llama"), batch_of("llama")
    source.read(source.batch(batch.encodings[:1]), [Widths()], 4, lambda layer: None)
    assert widths[:4] == [4, 8, 12, 13]


def test_a_function_that_needs_all_its_queries_at_once_is_measured_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers.models.bert import modeling_bert

    own = modeling_bert.eager_attention_forward

    def biased(module: Any, query: Tensor, *args: Any, **options: Any) -> Any:
        places = torch.arange(query.shape[2], dtype=query.dtype)[:, None]
        return own(module, query * (1 + places), *args, **options)

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", biased)
    source = wrap_model(build_model("bert"), build_tokenizer(FAMILIES["bert"].tokenizer), "bert")
    batch = source.batch(source.encode([e.example for e in batch_of("bert").encodings], N_TOKENS))
    assert source._slicing is Slicing.NONE
    whole: list[LayerAttention] = []
    source.attend(batch, whole.append)
    for one, other in zip(read(source, batch, 4), whole, strict=True):
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.read(SUMS).sums.entropy, other.read(SUMS).sums.entropy)


def test_numbers_that_are_none_are_seen_without_the_maps() -> None:
    config = LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        vocab_size=1000,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.model.layers[1].self_attn.q_proj.weight.data[0, 0] = float("nan")
    source = wrap_model(model, build_tokenizer("roberta"), "broken")
    source.__dict__["_slicing"] = Slicing.ALL  # which the probe would not find here
    batch = source.batch(source.encode([e.example for e in batch_of("bert").encodings[:1]], 9))
    assert [bool(layer.is_finite().all()) for layer in read(source, batch, 4)] == [True, False]


@pytest.mark.parametrize("name", ["bert", "mpnet"])  # by the tap, and by fallback
def test_a_model_is_set_once_for_many_batches_and_left_as_it_was(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_model(name, attention="eager" if name == "mpnet" else "sdpa").train()
    own = model.config._attn_implementation
    source = wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer), "tiny")
    examples = [Example(str(n), text="one two three " * n) for n in range(1, 6)]
    _ = source.n_heads  # the model is examined when it is opened
    set_to: list[str] = []
    change = type(model).set_attn_implementation
    monkeypatch.setattr(
        type(model),
        "set_attn_implementation",
        lambda self, name: set_to.append(name) or change(self, name),
    )
    result = measure_examples(examples, source, [Entropy()], RunOptions(batch_tokens=1))
    assert result.counts.used == len(examples)
    assert set_to == (["headscope", own] if name == "bert" else [])
    assert model.config._attn_implementation == own
    assert model.training


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("has_hook", [True, False])
def test_the_model_runs_no_further_than_its_last_attention(
    is_whole: bool, has_hook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, batch = source_of("bert"), batch_of("bert")
    model: Any = source.model
    before, ran = model(**batch.inputs).last_hidden_state, list[int]()
    source.read(batch, [SUMS], 128, lambda layer: None)  # the first time it is examined, too
    for place, layer in enumerate(model.encoder.layer):
        forward = layer.output.forward

        def count(*args: Any, place: int = place, forward: Any = forward) -> Any:
            ran.append(place)
            return forward(*args)

        monkeypatch.setattr(layer.output, "forward", count)
    seen: list[LayerAttention] = []
    hook = model.register_forward_hook(lambda *_: None) if has_hook else None
    if is_whole:
        source.attend(batch, seen.append)
    else:
        source.read(batch, [SUMS], 128, seen.append)
    if hook:  # it may have something to free
        hook.remove()
    assert ran == list(range(source.n_layers if has_hook else source.n_layers - 1))
    assert len(seen) == source.n_layers
    assert torch.equal(model(**batch.inputs).last_hidden_state, before)  # it is as it was
