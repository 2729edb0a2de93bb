"""Models larger than memory, GGUF files, and how often a model is loaded."""

import importlib.util
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import LlamaForCausalLM
from typer.testing import CliRunner

from headscope import texts
from headscope.cli import app
from headscope.data.attention import LayerAttention
from headscope.data.example import Example
from headscope.engine.analyze import analyze
from headscope.errors import ModelError, StudyError
from headscope.models.load import load_model, load_with_head
from headscope.models.loaded import LoadedModel
from tests.e2e.test_languages import KEEPERS, THINGS, german_sentence
from tests.models.test_load import save_language_model
from tests.models.tiny import SENTENCES, build_tokenizer

TEXT = Example("a", text=SENTENCES[0])


def see(source: LoadedModel) -> list[LayerAttention]:
    seen: list[LayerAttention] = []
    source.attend(source.batch(source.encode([TEXT], 30)), seen.append)
    return seen


# --- larger than memory -------------------------------------------------------------------------

OFFLOADED = {"device_map": "auto", "max_memory": "cpu=60MB"}  # the demo's weights take 91 MB


@pytest.fixture(autouse=True)
def _has_accelerate() -> None:
    pytest.importorskip("accelerate", reason="the extra 'big' is not installed")


def test_weights_beyond_the_limit_stay_on_disk_and_give_the_same_model() -> None:
    plain = load_model("demo")
    offloaded = load_model("demo", device_map="auto", max_memory={"cpu": "60MB"})
    assert offloaded.is_offloaded
    assert not plain.is_offloaded
    assert "disk" in offloaded.model.hf_device_map.values()
    in_memory = [w for w in offloaded.model.parameters() if not w.is_meta]
    assert 0 < sum(w.nbytes for w in in_memory) < 60_000_000
    assert offloaded.describe() == plain.describe()  # the digest reads every weight
    for one, other in zip(see(plain), see(offloaded), strict=True):
        assert torch.equal(one.weights, other.weights)


def test_a_run_of_an_offloaded_model_equals_the_plain_run() -> None:
    given: dict[str, Any] = {"text": "starter", "treebank": "starter", "limit": 6}
    given |= {"progress": False, "examples": False}
    plain, offloaded = analyze("demo", **given), analyze("demo", **given, **OFFLOADED)
    assert len(plain.tables) > 10
    for name, table in plain.tables.items():
        pd.testing.assert_frame_equal(table, offloaded.tables[name], check_exact=True)


def test_ablation_of_an_offloaded_model_equals_the_plain_one(tmp_path: Path) -> None:
    save_language_model(tmp_path, "gpt2")
    given: dict[str, Any] = {"text": texts(SENTENCES), "only": "ablation"}
    given |= {"progress": False, "examples": False}
    plain = analyze(tmp_path, **given)
    offloaded = analyze(tmp_path, **given, device_map="auto", max_memory="cpu=50KB")
    pd.testing.assert_frame_equal(plain.tables["ablation"], offloaded.tables["ablation"])


def test_gradients_of_an_offloaded_model_are_refused(tmp_path: Path) -> None:
    save_language_model(tmp_path, "gpt2")
    options = {"device_map": "auto", "max_memory": "cpu=50KB", "only": "gradient"}
    with pytest.raises(ModelError, match="gradients cannot flow through it"):
        analyze(tmp_path, text=texts(SENTENCES), **options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"weights": "norm", "only": "position"}, "cannot see its projections"),
        ({"null": 1, "only": "dependency"}, "no room for a copy with random weights"),
    ],
)
def test_what_needs_all_weights_at_once_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=f"demo is larger than the devices.*{reason}"):
        analyze("demo", text="starter", treebank="starter", limit=2, **options, **OFFLOADED)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"device_map": "balanced"}, 'Expected device_map="auto" and no device'),
        ({"device_map": "auto", "device": "cpu"}, 'with device="cpu" cannot be used'),
        ({"max_memory": "cpu=1GB"}, "without device_map"),
        ({"device_map": "auto", "max_memory": "1GB"}, 'max_memory="1GB" cannot be used'),
        ({"device_map": "auto", "max_memory": "cpu=much"}, "such as 0=20GB,cpu=60GB"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises((ModelError, StudyError), match=error):
        analyze("demo", text=texts(["a"]), **options)


@pytest.mark.parametrize(("package", "options"), [("accelerate", {"device_map": "auto"})])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, options: dict[str, Any]
) -> None:
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "headscope.models.load.find_spec", lambda name: None if name == package else own(name)
    )
    with pytest.raises(ModelError, match=rf"{package} is not installed.*headscope\[big\]"):
        load_model("demo", **options)


# --- GGUF ---------------------------------------------------------------------------------------


def write_gguf(path: Path, model: LlamaForCausalLM) -> None:
    """A Llama and a byte-level tokenizer in one file, as llama.cpp writes it."""
    import gguf

    config, tokenizer = model.config, build_tokenizer("gpt2")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    by_id = {number: token for token, number in tokenizer.get_vocab().items()}
    tokens = [by_id.get(number, f"[unused{number}]") for number in range(config.vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(*as_gguf(name, tensor.numpy(), config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def as_gguf(name: str, values: np.ndarray, config: Any) -> tuple[str, np.ndarray]:
    """A weight by llama.cpp's name; queries and keys have their rotary halves interleaved."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for part, n_heads in heads.items():
        if part in name:
            apart = values.reshape(n_heads, 2, -1, values.shape[1])
            values = apart.swapaxes(1, 2).reshape(values.shape)
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name, np.ascontiguousarray(values)


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    from transformers import LlamaConfig

    torch.manual_seed(0)
    sizes = {"hidden_size": 40, "intermediate_size": 28, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 5, "num_key_value_heads": 5}
    config = LlamaConfig(**sizes, **heads, vocab_size=400, max_position_embeddings=40)
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory, llama: LlamaForCausalLM) -> Path:
    pytest.importorskip("gguf", reason="the extra 'big' is not installed")
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, llama)
    return path


def test_a_gguf_file_is_the_model_that_it_was_made_of(
    gguf_file: Path, llama: LlamaForCausalLM
) -> None:
    source = load_model(gguf_file)
    assert (source.n_layers, source.n_heads, source.name) == (3, 5, str(gguf_file))
    ids = build_tokenizer("gpt2")(SENTENCES[0])["input_ids"]
    assert source.encode([TEXT], 100)[0].inputs["input_ids"].tolist() == ids
    llama.set_attn_implementation("eager")
    with torch.inference_mode():
        maps = llama(torch.tensor([ids[:30]]), output_attentions=True).attentions
    for attention, expected in zip(see(source), maps, strict=True):
        torch.testing.assert_close(attention.weights, expected)


def test_a_gguf_file_has_its_language_modelling_head(gguf_file: Path) -> None:
    model, head = load_with_head(gguf_file)
    assert isinstance(head, LoadedModel)
    assert type(head.model).__name__ == "LlamaForCausalLM"
    assert model.model is head.model.base_model


def test_a_gguf_file_that_is_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF, but no more")
    with pytest.raises(ModelError, match=r"bad.gguf' cannot be loaded"):
        load_model(path)


# --- once ---------------------------------------------------------------------------------------


def test_a_run_with_probes_loads_the_model_once(tmp_path: Path, loads: list[str]) -> None:
    sentences = [german_sentence(k, t) for k, t in product(KEEPERS, THINGS)]
    train, test = tmp_path / "train.conllu", tmp_path / "test.conllu"
    train.write_text("\n".join(sentences[:24]))
    test.write_text("\n".join(sentences[24:]))
    arguments = ["analyze", "demo", "--treebank", str(test), "--train", str(train)]
    arguments += ["--weights", "norm", "--only", "position", "--no-report"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert loads == ["BertModel"]
