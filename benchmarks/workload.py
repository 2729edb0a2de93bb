"""Models of known shapes with random weights, and text of exact lengths for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    PreTrainedTokenizerBase,
)

from headscope.contracts import Analysis
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.engine.resolve import build_analysis
from headscope.models.demo import find_demo_folder
from headscope.models.encode import Encoder
from headscope.models.loaded import LoadedModel, wrap_model

__all__ = [
    "ANALYSES", "WholeMaps", "bert_base", "bert_base_with_head", "build_analyses", "encode_ahead",
    "forward", "load_tokenizer", "make_segments", "make_sentences", "minilm", "wide",
]  # fmt: skip

ANALYSES = ("position", "special-tokens", "entropy")
PUNCTUATION = (".", ",")
N_SPECIAL = 3  # [CLS] a [SEP] b [SEP]


def bert_base(max_tokens: int = 512) -> LoadedModel:
    """The shape of BERT-base."""
    return _build(BertConfig(max_position_embeddings=max_tokens))


def bert_base_with_head(max_tokens: int = 512) -> LoadedModel:
    """The shape of BERT-base with a masked-LM head."""
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(max_position_embeddings=max_tokens)).eval()
    return wrap_model(model, load_tokenizer(), "random weights")


def minilm() -> LoadedModel:
    """The shape of MiniLM-L6."""
    return _build(
        BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        )
    )


def wide(n_layers: int, n_heads: int, size: int) -> LoadedModel:
    """So many layers of so many heads, each of a size."""
    return _build(
        BertConfig(
            hidden_size=n_heads * size,
            num_hidden_layers=n_layers,
            num_attention_heads=n_heads,
            intermediate_size=n_heads * size,
        )
    )


def build_analyses() -> list[Analysis]:
    """The analyses that need nothing but text."""
    return [build_analysis(name) for name in ANALYSES]


def make_segments(n_segments: int, n_tokens: int, seed: int = 0) -> list[Example]:
    """Pairs of texts that encode to exactly `n_tokens` tokens each."""
    draw = _word_drawer(seed)
    n_first = (n_tokens - N_SPECIAL) // 2
    n_second = n_tokens - N_SPECIAL - n_first
    return [
        Example(f"segment:{i}", text=" ".join(draw(n_first)), text_pair=" ".join(draw(n_second)))
        for i in range(n_segments)
    ]


def make_sentences(n_sentences: int, shortest: int, longest: int, seed: int = 0) -> list[Example]:
    """Sentences of words, their lengths uniform between the two."""
    draw, lengths = _word_drawer(seed), Random(seed)
    return [
        Example(f"sentence:{i}", words=tuple(draw(lengths.randint(shortest, longest))))
        for i in range(n_sentences)
    ]


def encode_ahead(source: LoadedModel, examples: Sequence[Example], max_tokens: int) -> LoadedModel:
    """The same model with these examples in tokens already, so that encoding takes no time."""
    encoder = source.encoder
    ready = {e.example.id: e for e in source.encode(examples, max_tokens)}
    return replace(
        source, encoder=ReadyEncoder(encoder.tokenizer, encoder.input_names, ready=ready)
    )


def forward(source: LoadedModel, batches: Sequence[Mapping[str, Tensor]], attention: str) -> None:
    """The bare model over inputs: nothing is kept of what it gives."""
    source.model.set_attn_implementation(attention)
    with torch.inference_mode():
        for inputs in batches:
            source.model(**inputs)


@dataclass(frozen=True)
class ReadyEncoder(Encoder):
    """An encoder that has some examples ready."""

    ready: Mapping[str, Encoding] = field(default_factory=dict, repr=False)

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """What is ready where all is, else by the tokenizer."""
        if all(example.id in self.ready for example in examples):
            return [self.ready[example.id] for example in examples]
        return super().encode(examples, max_tokens)


class WholeMaps:
    """A model that shows whole maps only."""

    def __init__(self, source: LoadedModel) -> None:
        self.source = source

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)

    def read(self, batch: Batch, readings: object, n_rows: int, observe: Any) -> None:
        """The maps of every layer, not slices of them."""
        self.source.attend(batch, observe)


def _build(config: BertConfig) -> LoadedModel:
    torch.manual_seed(0)
    return wrap_model(BertModel(config).eval(), load_tokenizer(), "random weights")


@cache
def load_tokenizer() -> PreTrainedTokenizerBase:
    tokenizer = AutoTokenizer.from_pretrained(find_demo_folder(), local_files_only=True)
    tokenizer.model_max_length = 10**6  # the model's positions alone are to bound a length
    return tokenizer


def _word_drawer(seed: int) -> Callable[[int], list[str]]:
    """Draws words that are one token each, about one in nine of them punctuation."""
    random = Random(seed)
    words = sorted(w for w in load_tokenizer().get_vocab() if w.isascii() and w.isalpha())

    def draw(n_words: int) -> list[str]:
        return [
            random.choice(PUNCTUATION if random.random() < 0.11 else words) for _ in range(n_words)
        ]

    return draw
