"""Tiny models of every text family that transformers has, and what headscope can do with each.

`python -m tests.models.every_family` writes docs/families.md. No answer is typed in: each is found
by running the model, and what headscope measures is checked against the model itself.
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto import modeling_auto as auto

from headscope.data.attention import LayerAttention, LayerChange, LayerGradient
from headscope.data.encoding import Batch
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models.ablation import MODES, AblationSource, mean_outputs
from headscope.models.gradients import GradientSource
from headscope.models.language import HiddenStateOutcome, build_task
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.norms import find_projections
from headscope.models.tap import TapOutput, observe_tap
from tests.models.tiny import SENTENCES, build_tokenizer, seeded, sharpen

__all__ = ["PAGE", "Answer", "build", "examine", "row_of", "text_families"]

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
N_TOKENS = 13
EXAMPLES = [Example("one", text=SENTENCES[0]), Example("two", text=SENTENCES[2])]
LAYERS, HEADS, GROUPS, SIZE = 4, 4, 2, 8  # every fourth layer of most hybrids has softmax attention

SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim"), 32),
    **dict.fromkeys(("dim_model", "embedding_size", "word_embed_proj_dim", "entity_emb_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), LAYERS),
    **dict.fromkeys(("encoder_layers", "num_encoder_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_heads", "n_head", "num_heads"), HEADS),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), HEADS),
    "num_key_value_heads": GROUPS,
    **dict.fromkeys(("head_dim", "d_kv", "dim_head", "d_head", "kv_channels", "v_head_dim"), SIZE),
    **dict.fromkeys(("qk_nope_head_dim", "qk_rope_head_dim", "rotary_dim"), SIZE),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "qk_head_dim", "embedding_rank"), 16),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "dim_ff", "dff"), 40),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size"), 40),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 24),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "mamba_n_groups"), 1),
    **dict.fromkeys(("mamba_n_heads", "linear_num_heads"), 4),
    **dict.fromkeys(("mamba_d_head", "mamba_d_state"), 16),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), SIZE),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), GROUPS),
    **dict.fromkeys(("index_n_heads", "indexer_n_heads"), GROUPS),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "entity_vocab_size"), 400),
    **dict.fromkeys(("pronunciation_vocab_size", "shape_vocab_size"), 400),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 64),
    "d_inner": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
ROTATION = {"rope_type": "default", "rope_theta": 1e4}
HYBRID = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
# What a family needs beside that: its default configuration contradicts itself, or these sizes.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [3]},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "canine": {"vocab_size": None},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": ROTATION, "sliding_attention": ROTATION}
    },
    "ctrl": {"n_positions": 64, "vocab_size": 400},
    "dbrx": {
        "attn_config": {"kv_n_heads": GROUPS, "clip_qkv": 8},
        "ffn_config": {
            "hidden_size": 32,
            "ffn_hidden_size": 40,
            "moe_num_experts": 4,
            "moe_top_k": 2,
        },
        "num_key_value_heads": None,
    },
    "dots1": {"num_key_value_heads": GROUPS},
    "esmc": {"num_key_value_heads": None},
    "funnel": {
        "block_sizes": [2, 2],
        "block_repeats": None,
        "d_inner": 64,
        "num_hidden_layers": None,
    },
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 0,
        "activation_sparsity_pattern": [0.0] * LAYERS,
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 8,
        "intermediate_size": [40] * LAYERS,
    },
    "gemma4_text": {"hidden_size_per_layer_input": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 4},
    "granitemoehybrid": {"layer_types": HYBRID},
    "led": {"attention_window": 4},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"]},
    "longformer": {"attention_window": [4] * LAYERS},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "neomme": {"head_dim": 16, "num_attention_heads": HEADS},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
        "hc_lowrank": 8,
        "ple_embed_dim": 8,
        "ngram_vocab_size_base": 100,
        "output_gate_type": "sigmoid",
    },
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local"] * LAYERS,
        "num_hidden_layers": None,
        "attention_head_size": SIZE,
        "local_attn_chunk_length": 8,
    },
    "zamba": {
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "num_key_value_heads": HEADS,
        "n_mamba_heads": 2,
        "mamba_dt_rank": 4,
        "use_mamba_kernels": False,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "n_mamba_heads": 4,
        "mamba_headdim": 16,
        "num_key_value_heads": HEADS,
        "kv_channels": None,
        "use_mamba_kernels": False,
    },
    "zaya": {"num_experts_per_tok": 1},
}
OTHER_INPUTS = re.compile("vision|audio|image|speech|acoustic|vq_")  # in names of inner configs


def text_families() -> tuple[list[str], list[str]]:
    """The model types that read text alone, and those that read images or sound too."""
    names = (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
        auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
        auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    )
    known = sorted(set().union(*names) & set(auto.MODEL_MAPPING_NAMES))
    mixed = [name for name in known if _reads_more_than_text(AutoConfig.for_model(name))]
    return [name for name in known if name not in mixed], mixed


def _reads_more_than_text(config: PreTrainedConfig) -> bool:
    return any(OTHER_INPUTS.search(part) for part in config.sub_configs)


def build_config(name: str) -> PreTrainedConfig:
    """The family's configuration with every size that it has made tiny."""
    default = AutoConfig.for_model(name)
    own = OWN_SIZES.get(name, {})
    sizes = {**{k: v for k, v in SIZES.items() if k in default.to_dict()}, **own}
    return AutoConfig.for_model(name, **{k: v for k, v in sizes.items() if v is not None})


def build(name: str, kind: Any = AutoModel, attention: str | None = None) -> PreTrainedModel:
    """A random model of the family, the same each time."""
    with seeded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind.from_config(build_config(name), attn_implementation=attention)
        sharpen(model)
    return model.eval()


@dataclass(frozen=True)
class Answer:
    """What headscope can do with a family: "yes", or why not; "" where that was not asked."""

    family: str
    seen: str  # "tap", "fallback" or "refused"
    layers: str = ""
    norm: str = ""
    gradient: str = ""
    ablation: str = ""
    why: str = ""  # of a refusal
    is_wrong: bool = False  # what was measured is not what the model does


def examine(family: str) -> Answer:
    """What headscope can do with a tiny model of the family."""
    try:
        source = wrap_model(build(family), build_tokenizer("roberta"), family)
        seen = "tap" if source.describe()["seen_by"] == "tap" else "fallback"
    except ModelError as error:
        return Answer(family, "refused", why=shorten(error, family))
    except ImportError as error:
        return Answer(family, "refused", why=f"not tried: {shorten(error, family)}")
    batch = source.batch(source.encode(EXAMPLES, N_TOKENS))
    try:
        check_attention(source, batch, family)
        norm, gradient, ablation = (
            ask(check, source, batch, family)
            for check in (check_norm, check_gradient, check_ablation)
        )
    except ModelError as error:  # at another length than the probe's
        return Answer(family, "refused", why=shorten(error, family))
    except AssertionError as error:
        return Answer(family, seen, why=f"WRONG: {' '.join(str(error).split())}", is_wrong=True)
    return Answer(family, seen, name_layers(source), norm, gradient, ablation)


def ask(check: Callable[..., None], source: LoadedModel, batch: Batch, family: str) -> str:
    try:
        check(source, batch, family)
    except ModelError as error:
        return shorten(error, family)
    return "yes"


def check_attention(source: LoadedModel, batch: Batch, family: str) -> None:
    """Weights are the model's own, whatever the batch, and with the sink sum to 1."""
    together = see(source, batch)
    for place, encoding in enumerate(batch.encodings):
        for alone, layer in zip(see(source, source.batch([encoding])), together, strict=True):
            torch.testing.assert_close(alone.weights[0], layer.weights[place], rtol=0, atol=1e-4)
    for layer in together:
        sums = layer.with_sink().sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-4)
    own = own_attentions(build(family, attention="eager"), batch)
    if len(own) == len(together):  # a few give none, or also what their other layers do
        assert all(torch.equal(a, b.weights) for a, b in zip(own, together, strict=True)), "weights"


def own_attentions(model: PreTrainedModel, batch: Batch) -> list[Tensor]:
    inputs = dict(batch.inputs)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :2]
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    maps = output.get("encoder_attentions") or output.get("attentions") or ()
    return [weights for weights in maps if weights is not None]


def check_norm(source: LoadedModel, batch: Batch, family: str) -> None:
    """What tokens add, added up, is what the projection gives."""
    weighted = replace(source, weights="norm")
    weighted.check_weights()
    see(weighted, batch)
    outputs: list[Tensor] = []
    seen: list[TapOutput] = []
    weights = {w.data_ptr() for w in find_projections(source.model, batch.inputs).values()}
    hooks = [
        module.register_forward_hook(
            lambda m, _, out: outputs.append(out if m.bias is None else out - m.bias)
        )
        for module in source.model.modules()
        if isinstance(getattr(module, "weight", None), Tensor)
        and module.weight.data_ptr() in weights
    ]
    observe_tap(source.model, batch.inputs, seen.append)
    for hook in hooks:
        hook.remove()
    projections = find_projections(source.model, batch.inputs)
    assert len(outputs) == len(seen), "calls of projections"
    for layer, output in zip(seen, outputs, strict=True):
        total = layer.output.flatten(2) @ projections[layer.module].T
        torch.testing.assert_close(total, output.reshape(total.shape), rtol=1e-3, atol=1e-4)


def check_gradient(source: LoadedModel, batch: Batch, family: str) -> None:
    """Gradients are autograd's, with all maps kept."""
    if family in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        kind: Any = AutoModelForCausalLM
    elif family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        kind = AutoModelForMaskedLM
    else:
        raise ModelError("no language-modelling head")
    model = build(family, kind)
    if model.config.is_encoder_decoder:
        raise ModelError("no language-modelling head")
    task = build_task(wrap_model(model, source.encoder.tokenizer, family))
    found: dict[int, LayerGradient] = {}
    GradientSource(task).attend(batch, lambda layer: found.update({layer.layer: layer}))
    maps: list[Tensor] = []

    def keep(module: Any, output: Tensor, weights: Tensor) -> Tensor:
        weights.retain_grad()
        maps.append(weights)
        return output

    model = task.source.model
    inputs, targets = task.prepare(batch)
    with eager_followed_by(model, keep), torch.enable_grad():
        task.losses(inputs, targets).sum().backward()
    for layer, weights in enumerate(maps):
        is_visible = found[layer].is_visible
        expected = weights.grad.abs() * (1 if is_visible is None else is_visible)
        scale = float(expected.max())
        torch.testing.assert_close(
            found[layer].sizes, expected, rtol=1e-3, atol=1e-3 * scale + 1e-9
        )


def check_ablation(source: LoadedModel, batch: Batch, family: str) -> None:
    """Taking a head away changes what it changes in a run from the bottom to the top."""
    outcome = HiddenStateOutcome(source)
    ablation = AblationSource(outcome, mean_outputs(source, [batch]))
    found: dict[int, LayerChange] = {}
    ablation.attend(batch, lambda change: found.update({change.layer: change}))
    inputs, head = outcome.prepare(batch), 1
    with torch.no_grad(), eager_followed_by(source.model, lambda module, output, weights: output):
        before = outcome.evaluate(inputs)
    for layer, change in found.items():
        calls = iter(range(len(found)))

        def drop(module: Any, output: Tensor, weights: Tensor) -> Tensor:
            if next(calls) == layer:
                output = output.clone()
                output[:, :, head] = 0
            return output

        with torch.no_grad(), eager_followed_by(source.model, drop):
            expected = outcome.difference(before, outcome.evaluate(inputs))
        seen = change.changes[:, head, MODES.index("zero")]
        torch.testing.assert_close(seen, expected, rtol=1e-2, atol=1e-5)


@contextmanager
def eager_followed_by(
    model: PreTrainedModel, follow: Callable[[Any, Tensor, Tensor], Tensor]
) -> Iterator[None]:
    """The model with its own eager attention, whose output goes through `follow`."""
    files = {
        file
        for module in model.modules()
        for parent in type(module).__mro__
        if hasattr(file := sys.modules[parent.__module__], "eager_attention_forward")
    }
    own = {file: file.eager_attention_forward for file in files}
    before = model.config._attn_implementation

    def wrap(eager: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Any]:
        def attend(module: Any, *args: Any, **options: Any) -> tuple[Tensor, Tensor]:
            output, weights = eager(module, *args, **options)
            return follow(module, output, weights), weights

        return attend

    model.set_attn_implementation("eager")
    for file, eager in own.items():
        file.eager_attention_forward = wrap(eager)
    try:
        yield
    finally:
        for file, eager in own.items():
            file.eager_attention_forward = eager
        model.set_attn_implementation(before)


def see(source: LoadedModel, batch: Batch) -> list[LayerAttention]:
    seen: list[LayerAttention] = []
    source.attend(batch, seen.append)
    return seen


def name_layers(source: LoadedModel) -> str:
    """Which of its layers have attention, where not all of them have."""
    n_all = len(source.layer_stack) or source.n_layers
    sink = ", learned sink" * source.has_sink
    if source.n_layers == n_all:
        return f"all{sink}"
    numbers = ", ".join(str(number + 1) for number in source.layer_numbers)
    return f"{numbers} of {n_all}{sink}"


def shorten(error: Exception, family: str) -> str:
    """The reason alone: what was expected instead is the same for all."""
    reason = " ".join(str(error).split()).partition(". Expected")[0]
    return reason.replace(f"{family} (", "(").replace("|", "/")


if __name__ == "__main__":
    from tests.models.every_family import main

    main()
