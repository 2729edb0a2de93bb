"""Tiny models of every text family that transformers has."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto as auto
from transformers.models.layoutlmv2 import modeling_layoutlmv2 as layoutlmv2

from tests.models.tiny import seeded, sharpen

__all__ = ["build", "build_config", "text_families"]

MOST_WEIGHTS = 70_000_000  # what could not be made tiny is not tried
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
MODULE = {
    **{name: SIZES[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")},
    **{name: SIZES[name] for name in ("num_key_value_heads", "head_dim", "intermediate_size")},
    "vocab_size": SIZES["vocab_size"],
}
TINY_PART = {name: value for name, value in MODULE.items() if name != "head_dim"}
TINY_PART |= {"num_key_value_heads": HEADS, "hidden_size_global": 64}
LATENT = {"num_key_value_heads": HEADS, "n_shared_experts": 1}  # keys and values of their own
# What a family needs beside that: its default configuration contradicts itself, or these sizes.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "axk1": LATENT,
    "axk2": LATENT,
    "bailing_hybrid": {
        **LATENT,
        "layer_types": HYBRID,
        "num_expert_group": 1,
        "mlp_layer_types": ["dense"] * LAYERS,
    },
    "bamba": {"attn_layer_indices": [3]},
    "blt": {
        **{f"{part}_config": TINY_PART for part in ("patcher", "encoder", "decoder")},
        "global_config": {**TINY_PART, "hidden_size": 64, "intermediate_size": 40},
        "encoder_hash_byte_group_vocab": 400,
        "patching_batch_size": None,
    },
    "bigbird_pegasus": {"attention_type": "original_full"},
    "canine": {"vocab_size": None},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": ROTATION, "sliding_attention": ROTATION}
    },
    "ctrl": {"n_positions": 64, "vocab_size": 400},
    "dbrx": {
        "attn_config": {"kv_n_heads": GROUPS, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 40, "moe_top_k": 2},
        "num_key_value_heads": None,
    },
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "deepseek_v32": LATENT,
    "dots1": {"num_key_value_heads": GROUPS},
    "dots3_note_text": {
        **LATENT,
        **{f"swa_{name}_heads": HEADS // 2 for name in ("num_attention", "num_key_value")},
        **{f"swa_{name}_lora_rank": 16 for name in ("q", "kv")},
        **{f"swa_{name}head_dim": SIZE for name in ("qk_nope_", "qk_rope_", "v_")},
        "swa_head_dim": 2 * SIZE,
    },
    "esmc": {"num_key_value_heads": None},
    "falcon_h1": {"mamba_d_ssm": 64},
    "funnel": {
        "block_sizes": [2, 2],
        "block_repeats": [1, 1],
        "num_hidden_layers": None,
        "architectures": ["FunnelModel"],
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
    "glm4_moe_lite": LATENT,
    "glm_moe_dsa": LATENT,
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 4},
    "granitemoehybrid": {"layer_types": HYBRID},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "kimi_linear": {**LATENT, "layer_types": HYBRID, "mlp_layer_types": ["dense"] * LAYERS},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6},
    "led": {"attention_window": 4},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"]},
    "lilt": {"hidden_size": 48},
    "longcat_flash": {
        **LATENT,
        "expert_ffn_hidden_size": 24,
        "zero_expert_num": 1,
        "moe_topk": 2,
    },
    "longformer": {"attention_window": [4] * LAYERS},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "minicpm3": LATENT,
    "mistral4": {**LATENT, "head_dim": None},
    "mobilebert": {"normalization_type": "layer_norm"},  # without, numbers overflow
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
    "perceiver": {
        "num_latents": 16,
        "d_latents": 32,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": HEADS,
        "num_cross_attention_heads": HEADS,
    },
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local"] * LAYERS,
        "num_hidden_layers": None,
        "attention_head_size": SIZE,
        "local_attn_chunk_length": 8,
    },
    "seamless_m4t": {"decoder_layers": LAYERS},
    "seamless_m4t_v2": {"decoder_layers": LAYERS},
    "t5gemma": {"encoder": MODULE, "decoder": MODULE},
    "xglm": {"attention_heads": HEADS},
    "xmod": {"default_language": "en_XX"},
    "youtu": LATENT,
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
    """Text has a configuration of its own within such a model's, or sound has."""
    names = set(config.sub_configs)
    inner = [getattr(config, name, None) for name in names]
    return bool(names & {"text_config", "audio_encoder", "vision_config", "audio_config"}) or any(
        _reads_more_than_text(part) for part in inner if isinstance(part, PreTrainedConfig)
    )


def build_config(name: str) -> PreTrainedConfig:
    """The family's configuration with every size that it has made tiny."""
    default = AutoConfig.for_model(name)
    own = OWN_SIZES.get(name, {})
    sizes = {**{k: v for k, v in SIZES.items() if k in default.to_dict()}, **own}
    return AutoConfig.for_model(name, **{k: v for k, v in sizes.items() if v is not None})


def build(name: str, kind: Any = AutoModel, attention: str | None = None) -> PreTrainedModel:
    """A random model of the family, the same each time."""
    config = build_config(name)
    with seeded(), warnings.catch_warnings(), _without_detectron():
        warnings.simplefilter("ignore")
        with torch.device("meta"):
            n_weights = kind.from_config(config).num_parameters()
        if n_weights > MOST_WEIGHTS:
            raise ValueError(f"the tiny model has {n_weights:,} weights")
        model = kind.from_config(config, attn_implementation=attention)
        sharpen(model)
    return model.eval()


@contextmanager
def _without_detectron() -> Iterator[None]:
    """LayoutLMv2 without what reads its images: the package for that is not on PyPI."""
    family = layoutlmv2.LayoutLMv2PreTrainedModel
    with (
        patch.object(layoutlmv2, "requires_backends"),
        patch.object(layoutlmv2, "LayoutLMv2VisualBackbone", nn.Identity),
        patch.object(family, "_init_weights", PreTrainedModel._init_weights),
    ):
        yield
