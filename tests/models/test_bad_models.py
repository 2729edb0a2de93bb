"""Model folders that contradict themselves are refused before they are measured."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers
from safetensors.torch import load_file, save_file

from headscope.data.example import Example
from headscope.errors import HeadscopeError, ModelError
from headscope.models.load import load_model
from tests.fuzz.runs import make_model
from tests.models.tiny import FAMILIES, build_model, build_tokenizer


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    good = make_model(tmp_path_factory.getbasetemp())
    shutil.copytree(good, tmp_path / "model")
    return tmp_path / "model"


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("value", [-1, 0, "x", 1.5, True])
def test_a_model_max_length_that_is_none_is_refused(folder: Path, value: Any) -> None:
    change(folder / "tokenizer_config.json", model_max_length=value)
    with pytest.raises(ModelError, match=r"model_max_length|cannot be loaded"):
        _ = load_model(folder).max_tokens


def test_a_billion_layers_are_refused_at_once(folder: Path) -> None:
    change(folder / "config.json", num_hidden_layers=10**9)
    with pytest.raises(ModelError, match=r"num_hidden_layers = 1000000000\. Expected 0 to"):
        load_model(folder)


def test_a_checkpoint_with_more_layers_than_its_configuration_is_refused(folder: Path) -> None:
    change(folder / "config.json", num_hidden_layers=1)
    with pytest.raises(ModelError, match="more layers than its configuration says"):
        load_model(folder)


@pytest.mark.parametrize(
    ("architecture", "family", "layers"),
    [
        ("BertForMaskedLM", "bert", "num_hidden_layers"),
        ("RobertaForMaskedLM", "roberta", "num_hidden_layers"),
        ("GPT2LMHeadModel", "gpt2", "n_layer"),
        ("DistilBertForMaskedLM", "distilbert", "n_layers"),
    ],
)
def test_a_language_model_with_more_layers_than_its_configuration_is_refused(
    tmp_path: Path, architecture: str, family: str, layers: str
) -> None:
    base = build_model(family)
    getattr(transformers, architecture)(base.config).save_pretrained(tmp_path)
    build_tokenizer(FAMILIES[family].tokenizer).save_pretrained(tmp_path)
    load_model(tmp_path)
    change(tmp_path / "config.json", **{layers: 1})
    with pytest.raises(ModelError, match="more layers than its configuration says"):
        load_model(tmp_path)


def test_a_token_without_an_embedding_is_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    key = next(key for key in weights if key.endswith("word_embeddings.weight"))
    weights[key] = weights[key][:20].clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    change(folder / "config.json", vocab_size=20)
    model = load_model(folder)
    encodings = model.encode([Example("a", text="The boat sails home.")], 40)
    with pytest.raises(ModelError, match="but the model has 20 embeddings"):
        model.batch(encodings)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 300])
def test_a_name_that_no_model_has_is_refused(name: str) -> None:
    with pytest.raises(HeadscopeError, match=r"No model|^name cannot be"):
        load_model(name)
