"""What headscope sees of any model is what the model itself says of its attention."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2LMHeadModel, PreTrainedModel

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.data.words import visible_words, word_weights
from headscope.errors import ModelError
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.tap import TapOutput, observe_tap, visible_keys
from tests.models import every_family
from tests.models.family_checks import eager_followed_by
from tests.models.tiny import (
    FAMILIES,
    N_HEADS,
    N_LAYERS,
    SENTENCES,
    TOKENIZERS,
    build_model,
    build_tokenizer,
)

N_TOKENS = 13  # a prime unlike the others; every example below is cut to it
EXAMPLES = [
    Example("text", text=SENTENCES[0]),
    Example("other text", text=SENTENCES[1]),
    Example("pair", text=SENTENCES[2], text_pair=SENTENCES[3]),
    Example("words", words=tuple(SENTENCES[4].split())),
]

each_family = pytest.mark.parametrize("name", FAMILIES)


@cache
def source_of(name: str) -> LoadedModel:
    return wrap_model(build_model(name), build_tokenizer(FAMILIES[name].tokenizer), name)


@cache
def batch_of(name: str) -> Batch:
    source = source_of(name)
    return source.batch(source.encode(EXAMPLES, N_TOKENS))


def see(source: LoadedModel, batch: Batch) -> list[LayerAttention]:
    seen: list[LayerAttention] = []
    source.attend(batch, seen.append)
    return seen


@cache
def seen_of(name: str) -> list[LayerAttention]:
    return see(source_of(name), batch_of(name))


def ask_for_attentions(model: PreTrainedModel, batch: Batch) -> tuple[Tensor, ...]:
    """What transformers itself returns; of an encoder-decoder, run whole, the encoder's."""
    inputs = dict(batch.inputs)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :2]
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    attentions: tuple[Tensor, ...] = outputs.get("encoder_attentions") or outputs["attentions"]
    return attentions


def within_reach(name: str, layer: int) -> Tensor:
    """Which keys each query of a layer may look at, as the family's definition has it."""
    family, places = FAMILIES[name], torch.arange(N_TOKENS)
    back = family.windows[layer] or N_TOKENS
    ahead = 0 if family.is_causal else back
    distance = places[:, None] - places  # [query, key]
    return (-ahead <= distance) & (distance <= back)


@each_family
def test_observed_weights_equal_the_models_own(name: str) -> None:
    own = ask_for_attentions(build_model(name, "eager"), batch_of(name))
    seen = [attention.weights for attention in seen_of(name)]
    assert len(seen) == len(own)
    assert all(map(torch.equal, seen, own))  # the same function on the same numbers: not a bit off


@each_family
def test_batch_size_has_no_effect(name: str) -> None:
    source, together = source_of(name), seen_of(name)
    for i, encoding in enumerate(batch_of(name).encodings):
        for alone, layer in zip(see(source, source.batch([encoding])), together, strict=True):
            # matrix products of another size may add in another order
            torch.testing.assert_close(alone.weights[0], layer.weights[i], atol=1e-5, rtol=0)
            assert torch.equal(alone.visible, layer.visible)


@each_family
def test_rows_sum_to_one(name: str) -> None:
    for attention in seen_of(name):
        sums = attention.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-5, rtol=0)


@each_family
def test_layers_come_in_order_with_all_their_heads(name: str) -> None:
    source = source_of(name)
    assert (source.n_layers, source.n_heads) == (N_LAYERS, N_HEADS)
    assert [attention.layer for attention in seen_of(name)] == list(range(N_LAYERS))
    shape = (len(EXAMPLES), N_HEADS, N_TOKENS, N_TOKENS)
    assert {tuple(attention.weights.shape) for attention in seen_of(name)} == {shape}


@each_family
def test_family_is_seen_by_the_tap_where_it_uses_the_interface(name: str) -> None:
    assert source_of(name).describe()["seen_by"] == FAMILIES[name].seen_by


@each_family
def test_visible_counts_the_keys_a_query_may_look_at(name: str) -> None:
    for attention in seen_of(name):
        expected = within_reach(name, attention.layer).sum(-1)
        assert torch.equal(attention.visible, expected)


@each_family
def test_nothing_out_of_reach_has_any_weight(name: str) -> None:
    for attention in seen_of(name):
        assert not attention.weights[..., ~within_reach(name, attention.layer)].any()


@each_family
def test_longest_input_fits_the_model(name: str) -> None:
    tokenizer = TOKENIZERS[FAMILIES[name].tokenizer]()
    tokenizer.model_max_length = 50  # beyond the positions of every model that has a table of them
    source = wrap_model(build_model(name), tokenizer, name)
    encodings = source.encode([Example("long", text=" ".join(SENTENCES))], source.max_tokens)
    assert len(encodings[0]) == source.max_tokens
    assert len(see(source, source.batch(encodings))) == N_LAYERS


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Whatever of a model headscope might have touched."""
    modules = dict(model.named_modules())
    return {
        "training": {n: m.training for n, m in modules.items()},
        "hooks": {n: [*m._forward_hooks, *m._forward_pre_hooks] for n, m in modules.items()},
        "configs": {n: m.config.to_dict() for n, m in modules.items() if hasattr(m, "config")},
        "attention": {
            n: m.config._attn_implementation for n, m in modules.items() if hasattr(m, "config")
        },
        "weights": {n: t.sum().item() for n, t in model.state_dict().items()},
        "gradients": {n: p.requires_grad for n, p in model.named_parameters()},
    }


@each_family
def test_model_is_left_as_it_was(name: str) -> None:
    model = build_model(name).train()
    next(model.children()).eval()  # as a user does who trains the upper part only
    before = snapshot(model)
    source = wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer))
    see(source, batch_of(name))
    assert snapshot(model) == before


@each_family
def test_model_can_be_trained_after_it_was_measured(name: str) -> None:
    model = build_model(name)
    source = wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer))
    see(source, batch_of(name))
    source.model(**batch_of(name).inputs)[0].sum().backward()
    assert any(weights.grad is not None for weights in model.parameters())


@pytest.mark.parametrize("name", ["bert", "gpt2", "mpnet"])
def test_model_is_left_as_it_was_when_an_observer_fails(name: str) -> None:
    model = build_model(name).train()
    source = wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer))
    before = snapshot(model)

    def fail(attention: LayerAttention) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        source.attend(batch_of(name), fail)
    assert snapshot(model) == before


@pytest.mark.parametrize(
    ("name", "dropout"),
    [
        ("bert", {"attention_probs_dropout_prob": 0.5, "hidden_dropout_prob": 0.5}),
        ("gpt2", {"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5}),
        ("t5", {"dropout_rate": 0.5}),
        ("bloom", {"attention_dropout": 0.5, "hidden_dropout": 0.5}),
    ],
)
def test_model_in_training_is_measured_without_dropout(name: str, dropout: dict[str, Any]) -> None:
    model = build_model(name, **dropout).train()
    source = wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer))
    for attention, expected in zip(see(source, batch_of(name)), seen_of(name), strict=True):
        assert torch.equal(attention.weights, expected.weights)
    assert model.training


def test_model_with_a_head_for_a_task_is_seen_as_its_body() -> None:
    body = build_model("gpt2")
    model = GPT2LMHeadModel(body.config)
    model.transformer.load_state_dict(body.state_dict())
    source = wrap_model(model, build_tokenizer("gpt2"))
    for attention, expected in zip(see(source, batch_of("gpt2")), seen_of("gpt2"), strict=True):
        assert torch.equal(attention.weights, expected.weights)


@pytest.mark.parametrize(
    ("name", "sizes", "reason"),
    [
        pytest.param("mamba", {}, "(no layer uses it)", id="state space: no attention"),
        pytest.param("fnet", {}, "(it has none)", id="Fourier: no attention"),
        pytest.param(
            "longformer", {"attention_window": [4] * N_LAYERS}, "shape", id="windows, not pairs"
        ),
        pytest.param(
            "squeezebert", {"embedding_size": 20}, "scores, not weights", id="scores alone"
        ),
        pytest.param(
            "falcon", {"attention": "sdpa"}, 'attn_implementation="eager"', id="fixed function"
        ),
    ],
)
def test_model_whose_attention_cannot_be_seen_is_refused_by_name(
    name: str, sizes: dict[str, Any], reason: str
) -> None:
    model = build_model(name, **sizes)
    source = wrap_model(model, build_tokenizer("roberta"), "some-model")
    with pytest.raises(ModelError) as caught:
        see(source, batch_of("roberta"))
    assert f"some-model ({type(model).__name__})" in str(caught.value)
    assert reason in str(caught.value)


def test_model_with_its_own_attention_function_is_seen_when_loaded_eager() -> None:
    model = build_model("falcon", "eager")
    source = wrap_model(model, build_tokenizer("roberta"))
    seen, own = see(source, batch_of("roberta")), ask_for_attentions(model, batch_of("roberta"))
    assert all(map(torch.equal, [attention.weights for attention in seen], own))


def test_layer_that_attends_twice_counts_once() -> None:
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16}
    source = wrap_model(build_model("diffllama", **sizes), build_tokenizer("roberta"))
    assert source.n_layers == N_LAYERS
    assert [a.layer for a in see(source, batch_of("roberta"))] == list(range(N_LAYERS))


@pytest.mark.parametrize("name", ["prophetnet", "squeezebert"])
def test_a_model_that_gives_scores_is_refused_as_such(name: str) -> None:
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    with pytest.raises(ModelError, match="it returns scores, not weights: a row of them sums to"):
        _ = source.n_layers


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("bros", r"needs boxes on a page \(bbox\)"),
        ("lxmert", r"needs images \(visual_feats\)"),
        ("whisper", r"needs sound \(input_features\)"),
        ("perceiver", "does not run on text"),
    ],
)
def test_a_model_that_needs_more_than_text_is_refused_by_naming_that(
    name: str, needed: str
) -> None:
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    with pytest.raises(ModelError, match=needed):
        _ = source.n_layers


def test_an_encoder_that_is_no_model_of_its_own_is_refused() -> None:
    with pytest.raises(ModelError, match=r"The encoder of fsmt \(FSMTModel\) cannot be run alone"):
        wrap_model(every_family.build("fsmt"), build_tokenizer("roberta"), "fsmt")


@pytest.mark.parametrize("name", ["afmoe", "doge"])
def test_a_mask_passed_by_its_name_is_found(name: str) -> None:
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    assert source.describe()["seen_by"] == "tap"
    for attention in see(source, batch_of("roberta")):
        assert attention.visible.tolist() == list(range(1, N_TOKENS + 1))


@pytest.mark.parametrize("name", ["gpt_oss", "mimo_v2_flash"])
def test_rows_of_a_model_with_a_learned_sink_sum_to_one_with_it(name: str) -> None:
    model = every_family.build(name, attention="eager")
    source, batch = wrap_model(model, build_tokenizer("roberta"), name), batch_of("roberta")
    seen, own = see(source, batch), ask_for_attentions(model, batch)
    assert source.has_sink
    assert all(map(torch.equal, [attention.weights for attention in seen], own))
    assert min(float(attention.weights.sum(-1).min()) for attention in seen) < 0.9
    for attention in seen:
        sums = attention.with_sink().sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_weights_are_scaled_as_a_sink_outside_of_them_scales_what_heads_give() -> None:
    """Granite's eager function returns weights that sum to 1, and scales their sum of values."""
    model = every_family.build("granite_swa", attention="eager")
    source, batch = wrap_model(model, build_tokenizer("roberta")), batch_of("roberta")
    queries: list[Tensor] = []

    def scale(module: Any, output: Tensor, weights: Tensor) -> Tensor:
        queries.append(output)
        return output

    with torch.no_grad(), eager_followed_by(model, scale):
        model(**batch.inputs)
    own = ask_for_attentions(model, batch)
    seen: list[TapOutput] = []
    observe_tap(model, batch.inputs, seen.append)
    for attention, given, weights, one in zip(see(source, batch), queries, own, seen, strict=True):
        assert one.values is not None
        values = one.values.repeat_interleave(2, dim=1)
        assert attention.has_sink
        torch.testing.assert_close((attention.weights @ values).transpose(1, 2), given)
        shares = attention.weights / attention.weights.sum(-1, keepdim=True)
        torch.testing.assert_close(shares, weights)


def test_what_goes_to_a_sink_adds_nothing_so_norms_have_none() -> None:
    model = every_family.build("gpt_oss")
    source = wrap_model(model, build_tokenizer("roberta"))
    for attention in see(replace(source, weights="norm"), batch_of("roberta")):
        assert not attention.has_sink
        sums = attention.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("qwen3_next", (3,)), ("zamba2", (1, 3)), ("albert", (0, 1, 2, 3)), ("t5", (0, 1, 2, 3))],
)
def test_a_hybrid_has_its_own_layer_numbers(name: str, numbers: tuple[int, ...]) -> None:
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    assert source.layer_numbers == numbers
    assert [a.layer for a in see(source, batch_of("roberta"))] == list(range(len(numbers)))


def test_the_probe_has_eight_tokens_or_more() -> None:
    for name in TOKENIZERS:
        source = wrap_model(build_model("roberta"), build_tokenizer(name))
        assert source.batch_of_probe().n_tokens >= 8


def test_model_without_its_tokenizer_is_refused() -> None:
    with pytest.raises(ModelError, match="BertModel object was given without its tokenizer"):
        wrap_model(build_model("bert"), None)


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float16])
def test_mask_of_one_row_speaks_for_every_query(n_rows: int, dtype: torch.dtype) -> None:
    is_visible = torch.tensor([True, True, False, True]).expand(2, 1, n_rows, 4)
    hidden = torch.finfo(dtype).min if dtype.is_floating_point else False
    shown = 0.0 if dtype.is_floating_point else True
    mask = torch.where(is_visible, shown, hidden).to(dtype)
    assert visible_keys(mask, torch.zeros(1, 1, 3, 4)).tolist() == [3, 3, 3]


def test_no_mask_means_that_every_key_is_visible() -> None:
    assert visible_keys(None, torch.zeros(1, 1, 3, 5)).tolist() == [5, 5, 5]


@pytest.mark.parametrize("name", ["bert", "t5", "gpt2", "gemma2", "modernbert", "gpt_neo"])
def test_words_are_visible_where_some_head_can_look(name: str) -> None:
    """By the reach that the mask gives, and by the weights themselves."""
    model = wrap_model(build_model(name), build_tokenizer(FAMILIES[name].tokenizer))
    example = Example("x", words=("the", "boat", "sails", "home", "again", "and", "again", "today"))

    def check(attention: LayerAttention) -> None:
        is_seen = (word_weights(attention) > 0).any(dim=1)
        assert torch.equal(visible_words(attention), is_seen)

    model.attend(model.batch(model.encode([example], 64)), check)
