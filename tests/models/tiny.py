"""Tiny random models of many families, and small tokenizers of every kind, built in memory."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerFast

N_LAYERS, N_HEADS = 3, 5  # unequal primes: a swapped axis fails
MAX_TOKENS = 40
POSITIONS = MAX_TOKENS + 2  # RoBERTa's kin lose two rows to padding
VOCABULARY = 400  # no tokenizer here has more

SENTENCES = [
    "The old boat sails home before the storm, and nobody on the shore sees it.",
    "One two three: they don't know what the keeper of the lighthouse wrote.",
    "She said that she had mended the net; he didn't believe her at all!",
    "Two boats, one harbour. The other one sailed away. (It never came back.)",
    "Every night the lighthouse keeper counted the lamps, one by one, and wrote it down.",
    "They sailed home . She sailed , too . Nobody saw them . Nobody , that is , but you .",
]

# --- tokenizers ---------------------------------------------------------------------------------


def _train(tokenizer: Tokenizer, trainer: trainers.Trainer) -> Tokenizer:
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def _template(tokenizer: Tokenizer, single: str, pair: str) -> None:
    parts = {part.partition(":")[0] for part in f"{single} {pair}".split()}
    names = {part for part in parts if not part.startswith("$")}
    special = [(name, tokenizer.token_to_id(name)) for name in sorted(names)]
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, special)


def _wrap(tokenizer: Tokenizer, **special: Any) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, **special
    )
    assert len(wrapped) <= VOCABULARY
    return wrapped


def _bpe_trainer(special: list[Any], n_merges: int = 100) -> trainers.BpeTrainer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    size = len(special) + len(alphabet) + n_merges
    return trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )


def wordpiece_tokenizer() -> PreTrainedTokenizerFast:
    """As BERT's: [CLS] a [SEP] b [SEP], lower case, no accents, "##" before later pieces."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    _train(
        tokenizer,
        trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False),
    )
    _template(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    return _wrap(
        tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def gpt2_tokenizer() -> PreTrainedTokenizerFast:
    """As GPT-2's: byte-level BPE, and one special token for everything, which it never adds."""
    end = "<|endoftext|>"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    _train(tokenizer, _bpe_trainer([end]))
    names = ["input_ids", "attention_mask"]
    return _wrap(tokenizer, bos_token=end, eos_token=end, unk_token=end, model_input_names=names)


def roberta_tokenizer() -> PreTrainedTokenizerFast:
    """As RoBERTa's: byte-level BPE, <s> a </s></s> b </s>; padding is token 1."""
    mask = AddedToken("<mask>", lstrip=True, special=True)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    _train(tokenizer, _bpe_trainer(["<s>", "<pad>", "</s>", "<unk>", mask]))
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return _wrap(tokenizer, **_roberta_special(), model_input_names=["input_ids", "attention_mask"])


def _roberta_special() -> dict[str, Any]:
    return {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": AddedToken("<mask>", lstrip=True, special=True),
    }


def _unigram(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    _train(tokenizer, trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    pieces = [(piece, score) for piece, score in learned["vocab"]]
    tokenizer.model = models.Unigram([*pieces, ("▁.", -3.0)], learned["unk_id"], False)
    return tokenizer


def xlm_roberta_tokenizer() -> PreTrainedTokenizerFast:
    """As XLM-RoBERTa's and CamemBERT's: Unigram with "▁" for spaces, <s> a </s></s> b </s>."""
    tokenizer = _unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    _template(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    return _wrap(tokenizer, **_roberta_special(), model_input_names=["input_ids", "attention_mask"])


def t5_tokenizer() -> PreTrainedTokenizerFast:
    """As T5's: Unigram with "▁" for spaces; a </s> b </s>, nothing at the start."""
    tokenizer = _unigram(["<pad>", "</s>", "<unk>"])
    _template(tokenizer, "$A </s>", "$A </s> $B </s>")
    return _wrap(tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def llama_tokenizer() -> PreTrainedTokenizerFast:
    """As Llama 2's: BPE with "▁" for spaces, bytes for unknown characters, <s> at the start."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    # Trained on words cut before "▁", so that no piece reaches over a space; used without the cut.
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    _train(
        tokenizer,
        trainers.BpeTrainer(vocab_size=390, special_tokens=special, show_progress=False),
    )
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    _template(tokenizer, "<s> $A", "<s> $A <s>:1 $B:1")
    return _wrap(tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def qwen_tokenizer() -> PreTrainedTokenizerFast:
    """As Qwen's and Llama 3's: a regular expression cuts the text, then byte-level BPE."""
    words = Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    _train(tokenizer, _bpe_trainer(["<|endoftext|>", "<|im_end|>"]))
    return _wrap(tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")


TOKENIZERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "wordpiece": wordpiece_tokenizer,
    "gpt2": gpt2_tokenizer,
    "roberta": roberta_tokenizer,
    "xlm-roberta": xlm_roberta_tokenizer,
    "t5": t5_tokenizer,
    "llama": llama_tokenizer,
    "qwen": qwen_tokenizer,
}


@cache
def build_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The tokenizer of this name, trained once."""
    return TOKENIZERS[name]()


# --- models -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """What a tiny model of one family is made of, and what headscope should see of it."""

    tokenizer: str
    sizes: Mapping[str, Any] = field(default_factory=dict)  # beyond those that all families share
    seen_by: str = "tap"
    is_causal: bool = False
    windows: tuple[int | None, ...] = (None,) * N_LAYERS  # how far local layers look, each way


SIZES = {
    "hidden_size": 20,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": N_HEADS,
    "intermediate_size": 28,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
SMALL_DECODER = {
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 28,
    "encoder_ffn_dim": 28,
}

FAMILIES = {
    "bert": Family("wordpiece", {"pad_token_id": 0}),
    "roberta": Family("roberta"),
    "electra": Family("wordpiece", {"embedding_size": 12, "pad_token_id": 0}),
    "albert": Family("wordpiece", {"embedding_size": 12, "pad_token_id": 0}),
    "distilbert": Family("wordpiece", {"hidden_dim": 28, "pad_token_id": 0}),
    "modernbert": Family(
        "roberta",
        {"local_attention": 6, "global_attn_every_n_layers": 2}
        | {"cls_token_id": 0, "sep_token_id": 2},
        windows=(None, 3, None),
    ),
    "camembert": Family("xlm-roberta"),
    "xlm-roberta": Family("xlm-roberta"),
    "gpt2": Family("gpt2", is_causal=True),
    "llama": Family("llama", {"num_key_value_heads": 1}, is_causal=True),
    "gemma2": Family(
        "llama",
        {"num_key_value_heads": 1, "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 4},
        is_causal=True,
        windows=(3, None, 3),  # a window of four holds the token itself
    ),
    "gpt_neox": Family("gpt2", {"rotary_pct": 0.5}, is_causal=True),
    "opt": Family("gpt2", {"ffn_dim": 28, "word_embed_proj_dim": 20}, is_causal=True),
    "qwen2": Family("qwen", {"num_key_value_heads": 1}, is_causal=True),
    "mobilebert": Family(
        "wordpiece",
        {
            "embedding_size": 12,
            "intra_bottleneck_size": 20,
            "normalization_type": "layer_norm",  # without it, random weights magnify rounding
            "pad_token_id": 0,
        },
    ),
    "t5": Family("t5", {"d_kv": 4, "d_ff": 28, "num_decoder_layers": 2, "pad_token_id": 0}),
    "layoutlm": Family("wordpiece", {"pad_token_id": 0}),
    "bart": Family("roberta", {"encoder_attention_heads": N_HEADS, "d_model": 20, **SMALL_DECODER}),
    "mpnet": Family("roberta", seen_by="output_attentions"),
    "deberta-v2": Family(
        "xlm-roberta",
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        seen_by="output_attentions",
    ),
    "bloom": Family("gpt2", seen_by="output_attentions", is_causal=True),
    "gpt_neo": Family(
        "gpt2",
        {"attention_types": [[["global", "local", "global"], 1]], "window_size": 4},
        seen_by="output_attentions",
        is_causal=True,
        windows=(None, 3, None),
    ),
    "xlnet": Family(
        "roberta", {"d_head": 4, "max_position_embeddings": None}, seen_by="output_attentions"
    ),
}


def build_model(name: str, attention: str | None = None, **options: Any) -> PreTrainedModel:
    """A random model of this kind, the same each time; its own default attention if None."""
    own_sizes = FAMILIES[name].sizes if name in FAMILIES else {}
    sizes = {**SIZES, **own_sizes, **options}
    config = AutoConfig.for_model(name, **{k: v for k, v in sizes.items() if v is not None})
    # DeBERTa's file calls torch.jit.script as it is imported, which torch says not to do.
    with seeded(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        model = AutoModel.from_config(config, attn_implementation=attention)
        sharpen(model)
    return model.eval()


def sharpen(model: nn.Module) -> None:
    """Larger weights than a model is born with: else every head looks everywhere alike."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(std=0.25)


@contextmanager
def seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
