"""A toy encoder-decoder that learns, in seconds, to copy or to reverse a line of words."""

from functools import cache

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

from headscope.data.example import Example, Link

WORDS = [f"w{number}" for number in range(12)]
SPECIAL = ["<pad>", "</s>", "<unk>"]
N_WORDS = 8  # of every line
TASKS = {"copy": 1, "reverse": -1}


def toy_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each word, and </s> at the end."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "$A </s>", "$A </s> $B </s>", [("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=32,
    )


def toy_examples(task: str, n: int, seed: int = 1) -> list[Example]:
    """Lines of random words with what they become, and which word comes from which."""
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(n):
        words = rng.choice(WORDS, N_WORDS).tolist()
        order = range(N_WORDS)[:: TASKS[task]]
        links = tuple(Link(source, target) for target, source in enumerate(order))
        target = " ".join(words[source] for source in order)
        examples.append(Example(f"{task}:{number}", " ".join(words), target, links=links))
    return examples


@cache
def train_toy(task: str, n_steps: int = 200) -> BartForConditionalGeneration:
    """A BART of two layers each with two heads, trained to do the task in a few seconds."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BartForConditionalGeneration(
            BartConfig(
                vocab_size=len(SPECIAL) + len(WORDS),
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_position_embeddings=32,
                dropout=0.0,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
                decoder_start_token_id=0,
                forced_eos_token_id=None,
            )
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
        for _ in range(n_steps):
            source = torch.randint(len(SPECIAL), model.config.vocab_size, (64, N_WORDS))
            end = torch.ones(64, 1, dtype=torch.long)
            target = source.flip(1) if TASKS[task] < 0 else source
            labels = torch.cat([target, end], dim=1)
            loss = model(input_ids=torch.cat([source, end], dim=1), labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()
