"""Gradients by attention weights equal autograd's over retained maps, and finite differences."""

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

import headscope as hs
from headscope.data.attention import LayerGradient
from headscope.data.encoding import Batch
from headscope.errors import HeadscopeError, ModelError
from headscope.models.gradients import GradientSource
from headscope.models.language import Task, build_task
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from tests.models.test_families import EXAMPLES, N_TOKENS
from tests.models.tiny import FAMILIES, SENTENCES, build_model, build_tokenizer

NAMES = ["bert", "roberta", "albert", "distilbert", "electra", "modernbert"]
NAMES += ["gpt2", "llama", "gemma2", "qwen2", "opt", "gpt_neox"]

each_model = pytest.mark.parametrize("name", NAMES)


@cache
def language_model(name: str) -> LoadedModel:
    kind = AutoModelForCausalLM if FAMILIES[name].is_causal else AutoModelForMaskedLM
    torch.manual_seed(0)
    model = kind.from_config(build_model(name).config).eval()
    return wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer), name)


def batch_of(task: Task) -> Batch:
    return task.source.batch(task.source.encode(EXAMPLES, N_TOKENS))


def see(source: GradientSource, batch: Batch) -> dict[int, LayerGradient]:
    seen: dict[int, LayerGradient] = {}
    source.attend(batch, lambda layer: seen.update({layer.layer: layer}))
    return seen


def own_gradients(task: Task, batch: Batch) -> list[Tensor]:
    """With all maps kept, as autograd has them."""
    model = task.source.model
    model.set_attn_implementation("eager")
    inputs, targets = task.prepare(batch)
    output = model(**inputs, output_attentions=True)
    for weights in output.attentions:
        weights.retain_grad()
    total = torch.zeros(())
    for example, wanted in enumerate(targets):
        places = (wanted != -100).nonzero()[:, 0]
        logits = output.logits[example, places].log_softmax(-1)
        total = total - logits[range(len(places)), wanted[places]].mean()
    total.backward()
    model.zero_grad()
    return [weights.grad.abs() for weights in output.attentions]


@each_model
def test_gradients_equal_autograd_with_retained_maps(name: str) -> None:
    task = build_task(language_model(name))
    batch = batch_of(task)
    seen = see(GradientSource(task), batch)
    assert list(seen) == [2, 1, 0]  # last layer first
    for layer, expected in enumerate(own_gradients(task, batch)):
        is_visible = seen[layer].is_visible
        if is_visible is not None:
            expected = expected * is_visible
        if FAMILIES[name].is_causal:
            assert is_visible is not None
            assert not is_visible.triu(1).any()
        torch.testing.assert_close(seen[layer].sizes, expected, rtol=1e-4, atol=1e-7)


def test_gradients_equal_finite_differences() -> None:
    """A value added to one weight, through the output it would change, moves the loss as told."""
    source = language_model("bert")
    source.model.double()
    try:
        task = build_task(source)
        batch = batch_of(task)
        inputs, targets = task.prepare(batch)
        seen = see(GradientSource(task), batch)
        example, head, query, key, step = 1, 2, 4, 7, 1e-2
        attention = source.model.bert.encoder.layer[1].attention

        def loss_with(change: float) -> float:
            def alter(module: object, inputs: tuple[Tensor, ...], output: tuple[Tensor]) -> object:
                value = attention.self.value(inputs[0])[example, key]
                size = value.shape[0] // 5
                part = slice(head * size, (head + 1) * size)
                output[0][example, query, part] += change * value[part]
                return output

            hook = attention.self.register_forward_hook(alter)
            with torch.no_grad():
                loss = task.losses(inputs, targets).sum().item()
            hook.remove()
            return loss

        slope = (loss_with(step) - loss_with(-step)) / (2 * step)
        found = seen[1].sizes[example, head, query, key].item()
        assert found == pytest.approx(abs(slope), rel=1e-4)
    finally:
        source.model.float()


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_gradients_do_not_depend_on_batches_or_shards(name: str) -> None:
    model, tokenizer = language_model(name).model, build_tokenizer(FAMILIES[name].tokenizer)
    texts = SENTENCES * 2
    tables = [
        hs.analyze(
            model,
            tokenizer=tokenizer,
            text=texts,
            only=["gradient"],
            batch_tokens=batch_tokens,
            shard_examples=shard_examples,
            progress=False,
        ).tables["gradient"]
        for batch_tokens, shard_examples in ((1, 3), (4096, 100))
    ]
    assert tables[0]["gradient"].sum() > 0
    torch.testing.assert_close(
        *(torch.tensor(table["gradient"].to_numpy()) for table in tables),
        rtol=1e-4,
        atol=1e-9,
        equal_nan=True,
    )


def test_masks_depend_on_the_seed_and_the_example_alone() -> None:
    source = language_model("bert")
    task = build_task(source)
    batch = batch_of(task)
    _, targets = task.prepare(batch)
    alone = source.batch([batch.encodings[2]])
    torch.testing.assert_close(task.prepare(alone)[1][0], targets[2])
    assert not torch.equal(build_task(source, seed=1).prepare(batch)[1], targets)
    n_masked = (targets != -100).sum(dim=1)
    assert n_masked.tolist() == [
        max(1, round(0.15 * int((encoding.kinds == 0).sum()))) for encoding in batch.encodings
    ]
    ids = batch.inputs["input_ids"]
    is_asked = targets != -100
    assert torch.equal(targets[is_asked], ids[is_asked])


@pytest.mark.parametrize(("name", "n_least"), [("bert", 3), ("gpt2", 2)])
def test_an_input_has_a_loss_if_and_only_if_it_has_a_token_to_predict(
    name: str, n_least: int
) -> None:
    source = language_model(name)
    task = build_task(source)
    for n_tokens in range(1 if n_least == 2 else 2, 6):  # BERT's two special tokens always stand
        batch = source.batch(source.encode(EXAMPLES[:1], n_tokens))
        has_loss = bool(task.losses(*task.prepare(batch)).isfinite())
        assert has_loss == (n_tokens >= n_least) == (not task.explain_unusable(batch.encodings[0]))


def test_a_model_is_left_as_it_was() -> None:
    source = language_model("bert")
    source.model.train()
    before = {name: weight.requires_grad for name, weight in source.model.named_parameters()}
    task = build_task(source)
    see(GradientSource(task), batch_of(task))
    assert source.model.training
    assert {n: w.requires_grad for n, w in source.model.named_parameters()} == before
    assert all(weight.grad is None for weight in source.model.parameters())
    source.model.eval()


def test_a_sentence_encoder_has_no_gradients_and_the_rest_is_measured() -> None:
    run = hs.analyze("demo", text=SENTENCES, also=["gradient"], progress=False)
    assert "gradient" not in run.tables
    assert "position" in run.tables
    assert "without a language-modelling head" in run.manifest["left_out"]["gradient"]
    with pytest.raises(HeadscopeError, match="without a language-modelling head"):
        hs.analyze("demo", text=SENTENCES, only=["gradient"], progress=False)


def test_a_head_that_the_checkpoint_lacks_is_refused(tmp_path: Path) -> None:
    config = build_model("bert").config
    bare = AutoModel.from_config(config)
    bare.save_pretrained(tmp_path)
    saved = tmp_path / "config.json"
    saved.write_text(saved.read_text().replace('"BertModel"', '"BertForMaskedLM"'))
    build_tokenizer(FAMILIES["bert"].tokenizer).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="they would be random"):
        load_model(str(tmp_path), with_head=True)


def test_a_model_in_memory_without_a_head_is_refused() -> None:
    source = wrap_model(build_model("bert"), build_tokenizer(FAMILIES["bert"].tokenizer))
    with pytest.raises(ModelError, match="has no language-modelling head"):
        build_task(source)
