"""All attention of an encoder-decoder is what the model itself says of it."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.contracts import AttentionKind
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, TokenKind
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models import seq2seq
from headscope.models.load import make_untrained
from headscope.models.loaded import wrap_model
from headscope.models.seq2seq import Part, Seq2SeqModel
from tests.models.tiny import SENTENCES, SMALL_DECODER, build_model, build_tokenizer

ENCODER, DECODER, CROSS = AttentionKind
LIKE_T5 = {"d_kv": 4, "d_ff": 28, "num_decoder_layers": 2, "decoder_start_token_id": 0}
LIKE_BART = {"encoder_attention_heads": 5, "d_model": 20, **SMALL_DECODER}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("t5", LIKE_T5 | {"pad_token_id": 0}),
    "mt5": ("t5", LIKE_T5 | {"pad_token_id": 0}),
    "bart": ("roberta", LIKE_BART | {"decoder_start_token_id": 2}),
    "mbart": ("roberta", LIKE_BART),
    "marian": ("roberta", LIKE_BART | {"decoder_start_token_id": 1}),
    "pegasus": ("roberta", LIKE_BART | {"decoder_start_token_id": 0}),
    "m2m_100": ("roberta", LIKE_BART | {"decoder_start_token_id": 2}),
}
PAIRS = [
    Example("one", text=SENTENCES[0], text_pair=SENTENCES[1]),
    Example("two", text=SENTENCES[0], text_pair=SENTENCES[1]),
]

each_family = pytest.mark.parametrize("name", FAMILIES)


def build(name: str, attention: str | None = None) -> Any:
    return build_model(name, attention, **FAMILIES[name][1])


@cache
def source_of(name: str) -> Seq2SeqModel:
    return Seq2SeqModel(wrap_model(build(name), build_tokenizer(FAMILIES[name][0]), name))


def see(source: Seq2SeqModel, batch: Batch) -> dict[AttentionKind, list[LayerAttention]]:
    seen: dict[AttentionKind, list[LayerAttention]] = {kind: [] for kind in AttentionKind}

    def keep(attention: LayerAttention) -> None:
        assert attention.kind is not None
        seen[attention.kind].append(attention)

    source.attend(batch, keep)
    return seen


def own_attentions(name: str, batch: Batch) -> dict[AttentionKind, tuple[Tensor, ...]]:
    inputs = {**batch.inputs, "decoder_input_ids": batch.target.inputs["input_ids"]}
    with torch.no_grad():
        outputs = build(name, "eager")(**inputs, output_attentions=True)
    return {kind: outputs[f"{kind}_attentions"] for kind in AttentionKind}


@each_family
def test_all_kinds_of_attention_equal_the_models_own(name: str) -> None:
    source = source_of(name)
    batch = source.batch(source.encode(PAIRS, 17))
    own, seen = own_attentions(name, batch), see(source, batch)
    assert source.describe()["seen_by"] == "tap"
    for kind in AttentionKind:
        assert [attention.layer for attention in seen[kind]] == list(range(len(own[kind])))
        assert all(torch.equal(a.weights, o) for a, o in zip(seen[kind], own[kind], strict=True))


@each_family
def test_layers_and_heads_are_counted_by_kind(name: str) -> None:
    n_heads = 5 if FAMILIES[name][0] == "t5" else 2
    parts = {ENCODER: Part(3, 5), DECODER: Part(2, n_heads), CROSS: Part(2, n_heads)}
    assert source_of(name).parts == parts


@each_family
def test_the_decoder_looks_back_and_across_at_all(name: str) -> None:
    source = source_of(name)
    batch = source.batch(source.encode(PAIRS, 17))
    seen = see(source, batch)
    n_source, n_target = batch.n_tokens, batch.target.n_tokens
    assert n_source != n_target
    assert seen[DECODER][0].visible.tolist() == list(range(1, n_target + 1))
    assert seen[CROSS][0].visible.tolist() == [n_source] * n_target
    assert seen[CROSS][0].keys is batch
    assert seen[CROSS][0].batch is seen[DECODER][0].batch is batch.target


@each_family
def test_a_target_is_shifted_behind_an_opening_token(name: str) -> None:
    source, tokenizer = source_of(name), build_tokenizer(FAMILIES[name][0])
    (encoding,) = source.encode([Example("a", text="one two", text_pair="the boat sails")], 40)
    target = encoding.target
    assert target is not None
    written = tokenizer(text_target="the boat sails")["input_ids"]
    start = written[-1] if name == "mbart" else source.whole.config.decoder_start_token_id
    assert target.inputs["input_ids"].tolist() == [start, *written[:-1]]
    assert target.kinds[0] == TokenKind.CLS
    words = target.word_ids.tolist()
    assert sorted(set(words)) == [-1, 0, 1, 2]
    assert words == sorted(words)


def test_a_target_without_a_closing_token_is_read_whole() -> None:
    model = build_model("bart", **LIKE_BART, decoder_start_token_id=2)
    source = Seq2SeqModel(wrap_model(model, build_tokenizer("gpt2"), "bart"))
    (encoding,) = source.encode([Example("a", text="one two", text_pair="the boat")], 40)
    assert encoding.target is not None
    assert "".join(encoding.target.surfaces[1:]) == "theboat"


def test_words_are_what_spaces_part() -> None:
    example = Example("a", text="don't  go,\nhome (now)", text_pair="x")
    for name in ("t5", "bart"):
        (encoding,) = source_of(name).encode([example], 40)
        words: dict[int, str] = {}
        for word, surface in zip(encoding.word_ids.tolist(), encoding.surfaces, strict=True):
            words[word] = words.get(word, "") + surface
        words.pop(-1, None)
        said = {word: text.replace("<unk>", "").strip("'") for word, text in words.items()}
        assert sorted(said) == [0, 1, 2, 3]
        assert (said[1][:2], said[2]) == ("go", "home")


def test_both_sides_are_cut_to_the_limit() -> None:
    long = Example("long", text=" ".join(SENTENCES), text_pair=" ".join(SENTENCES))
    (encoding,) = source_of("bart").encode([long], 11)
    assert encoding.target is not None
    assert len(encoding) == 11
    assert len(encoding.target) <= 11
    assert encoding.is_truncated
    assert encoding.target.is_truncated


def test_batch_size_has_no_effect() -> None:
    source = source_of("t5")
    encodings = source.encode(PAIRS, 17)
    together, alone = see(source, source.batch(encodings)), see(source, source.batch(encodings[:1]))
    for kind in AttentionKind:
        for one, both in zip(alone[kind], together[kind], strict=True):
            torch.testing.assert_close(one.weights[0], both.weights[0], atol=1e-5, rtol=0)


@each_family
def test_norm_weights_of_all_kinds_sum_to_one(name: str) -> None:
    plain = source_of(name).encoder
    source = Seq2SeqModel(replace(plain, weights="norm"))
    batch = source.batch(source.encode(PAIRS, 17))
    seen, without = see(source, batch), see(source_of(name), batch)
    for kind in AttentionKind:
        for one, other in zip(seen[kind], without[kind], strict=True):
            torch.testing.assert_close(one.weights.sum(-1), torch.ones(one.weights.shape[:-1]))
            assert not torch.allclose(one.weights, other.weights, atol=1e-3)


def test_what_the_tap_cannot_see_is_read_off_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise ModelError("no interface")

    monkeypatch.setattr(seq2seq.tap, "observe_tap", fail)
    source = Seq2SeqModel(wrap_model(build("bart"), build_tokenizer("roberta"), "bart"))
    batch = source.batch(source.encode(PAIRS, 17))
    seen, own = see(source, batch), own_attentions("bart", batch)
    assert source.describe()["seen_by"] == "output_attentions"
    for kind in AttentionKind:
        assert all(torch.equal(a.weights, o) for a, o in zip(seen[kind], own[kind], strict=True))
        assert all(torch.equal(a.visible, see(source_of("bart"), batch)[kind][0].visible)
                   for a in seen[kind])  # fmt: skip


def test_a_decoder_that_cannot_be_seen_is_refused_with_the_reason() -> None:
    model = build_model("longt5", **LIKE_T5)
    source = Seq2SeqModel(wrap_model(model, build_tokenizer("t5"), "longt5"))
    with pytest.raises(ModelError, match=r"decoder of longt5 \(LongT5Model\) cannot be seen"):
        _ = source.parts


def test_a_decoder_without_a_first_token_is_refused() -> None:
    model = build_model("t5", **{**LIKE_T5, "decoder_start_token_id": None})
    model.config.decoder_start_token_id = None
    source = Seq2SeqModel(wrap_model(model, build_tokenizer("t5"), "t5"))
    with pytest.raises(ModelError, match="has no decoder_start_token_id"):
        source.encode(PAIRS, 17)


def test_an_untrained_model_is_untrained_in_all_its_parts() -> None:
    source = source_of("bart").encoder
    untrained = make_untrained(source, seed=1)
    assert source.whole is not None
    assert untrained.whole is not None
    assert untrained.model is untrained.whole.get_encoder()
    before, after = dict(source.whole.named_parameters()), dict(untrained.whole.named_parameters())
    name = "decoder.layers.0.encoder_attn.q_proj.weight"
    assert not torch.equal(before[name], after[name])
    assert torch.equal(before["shared.weight"], after["shared.weight"])


def test_the_digest_is_that_of_the_whole() -> None:
    source, other = source_of("bart"), Seq2SeqModel(source_of("bart").encoder)
    assert source.describe() == other.describe()
    assert source.describe()["digest"] != source.encoder.describe()["digest"]
    assert source.describe()["attention"] == {
        "encoder": {"n_layers": 3, "n_heads": 5},
        "decoder": {"n_layers": 2, "n_heads": 2},
        "cross": {"n_layers": 2, "n_heads": 2},
    }
