"""Trains a small BERT from scratch and keeps checkpoints, to watch heads appear.

    python -m benchmarks.train_series ../shared/data/text/enwiki.txt series
    for s in series/step-*; do headscope analyze $s --text ... --out runs/$(basename $s); done
    headscope compare --series "runs/step-*" --out training

The tokenizer is trained on the same text: letters and a few frequent pieces, whose neighbours tell
much about them. 30 % are masked, so that a segment teaches more than with BERT's 15 %. The first
position vectors are sines, of which a step to the side is a linear map. Segments are short, where a
neighbour is one of few tokens. Of every tenth article the loss is measured and nothing is learned;
the folder `series` also has `losses.csv`, whose first row is the loss of a model that knows how
frequent each piece is and nothing else.
"""

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import torch
from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

CHECKPOINTS = (0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1)  # of all steps
VOCABULARY, LETTERS, LAYERS, HEADS, HIDDEN = 120, 60, 4, 4, 64
LENGTHS, TOKENS = (8, 16, 32), 768  # of a segment; of a batch, whatever the length
RATE, WARM_UP, SPREAD = 2e-3, 0.03, 0.125  # spread of first weights: 1 / sqrt(HIDDEN)
TESTED = 200  # segments of the longest kind
MASKED, IGNORED = 0.3, -100


def main() -> None:
    """Train, and write `FOLDER/step-N` for ten steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("text", type=Path, help="A paragraph a line, a blank line between articles")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    disable_progress_bar()
    given.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(given.text)
    learned, kept_out = (list(part) for part in split_articles(given.text))
    train(tokenizer, join(tokenizer, learned), join(tokenizer, kept_out), given.folder, given.steps)


def split_articles(path: Path) -> tuple[Iterator[str], Iterator[str]]:
    """Articles to learn from, and every tenth, to measure the loss on."""
    articles = path.read_text().strip().split("\n\n")
    return (a for i, a in enumerate(articles) if i % 10), iter(articles[::10])


def train_tokenizer(path: Path) -> PreTrainedTokenizerFast:
    """WordPiece, uncased, from the text alone."""
    made = BertWordPieceTokenizer(lowercase=True)
    made.train([str(path)], vocab_size=VOCABULARY, limit_alphabet=LETTERS, show_progress=False)
    own = made._tokenizer
    own.post_processor = BertProcessing(*(((t, own.token_to_id(t))) for t in ("[SEP]", "[CLS]")))
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "pad", "unk")
    }
    return PreTrainedTokenizerFast(tokenizer_object=own, model_max_length=max(LENGTHS), **special)


def join(tokenizer: PreTrainedTokenizerFast, articles: Sequence[str]) -> Tensor:
    """All articles as one row of pieces."""
    found = tokenizer(list(articles), add_special_tokens=False, verbose=False)["input_ids"]
    return torch.tensor([piece for article in found for piece in article])


def cut(tokenizer: PreTrainedTokenizerFast, pieces: Tensor, starts: Tensor, length: int) -> Tensor:
    """Segments that begin at these places, [CLS] ... [SEP]: [segment, token]."""
    inside = pieces[starts[:, None] + torch.arange(length - 2)]
    ends = torch.ones_like(inside[:, :1])
    return torch.cat([ends * tokenizer.cls_token_id, inside, ends * tokenizer.sep_token_id], 1)


def mask(
    tokenizer: PreTrainedTokenizerFast, ids: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The input with masks, and the labels: 30 %, of these 80 % masked and 10 % random."""
    is_special = (ids == tokenizer.cls_token_id) | (ids == tokenizer.sep_token_id)
    is_chosen = (torch.rand(ids.shape, generator=generator) < MASKED) & ~is_special
    labels = torch.where(is_chosen, ids, IGNORED)
    drawn = torch.rand(ids.shape, generator=generator)
    noise = torch.randint(5, len(tokenizer), ids.shape, generator=generator)
    ids = torch.where(is_chosen & (drawn < 0.8), tokenizer.mask_token_id, ids)
    return torch.where(is_chosen & (drawn >= 0.9), noise, ids), labels


def find_loss(model: BertForMaskedLM, ids: Tensor, labels: Tensor) -> Tensor:
    """The masked-language loss; words are predicted at the chosen places alone."""
    hidden = model.bert(input_ids=ids).last_hidden_state
    is_chosen = labels != IGNORED
    return torch.nn.functional.cross_entropy(model.cls(hidden[is_chosen]), labels[is_chosen])


def draw_sines() -> Tensor:
    """Sines and cosines of positions, as large as the first word vectors: [position, hidden]."""
    n = max(LENGTHS)
    angles = torch.arange(n)[:, None] * torch.exp(-math.log(n) * torch.linspace(0, 1, HIDDEN // 2))
    return math.sqrt(2) * SPREAD * torch.cat([angles.sin(), angles.cos()], dim=1)


def find_unigram_loss(learned: Tensor, labels: Tensor) -> float:
    """The loss of a model that knows how frequent each piece is and nothing else."""
    counts = torch.bincount(learned, minlength=int(labels.max()) + 1) + 1.0
    return float(-(counts / counts.sum()).log()[labels[labels != IGNORED]].mean())


def train(
    tokenizer: PreTrainedTokenizerFast,
    learned: Tensor,
    kept_out: Tensor,
    folder: Path,
    n_steps: int,
) -> None:
    """AdamW with a warm-up and a linear way down."""
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * HIDDEN,
        max_position_embeddings=max(LENGTHS),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=SPREAD,
    )
    model = BertForMaskedLM(config)
    model.bert.embeddings.position_embeddings.weight.data = draw_sines()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    n_warm = WARM_UP * n_steps
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / n_warm, (n_steps - s) / (n_steps - n_warm))
    )
    kept, losses, start = {round(part * n_steps) for part in CHECKPOINTS}, [], perf_counter()
    generator = torch.Generator().manual_seed(0)
    step_size = (len(kept_out) - max(LENGTHS)) // TESTED
    segments = cut(tokenizer, kept_out, step_size * torch.arange(TESTED), max(LENGTHS))
    tested = mask(tokenizer, segments, torch.Generator().manual_seed(1))
    frequent = round(find_unigram_loss(learned, tested[1]), 4)
    print(f"loss of frequencies alone: {frequent}", flush=True)
    for step in range(n_steps + 1):
        if step in kept:
            model.eval()
            with torch.no_grad():
                held_out = float(find_loss(model, *tested))
            model.train()
            name = f"step-{step:0{len(str(n_steps))}d}"
            model.save_pretrained(folder / name)
            tokenizer.save_pretrained(folder / name)
            losses.append((step, round(held_out, 4), round(perf_counter() - start, 1)))
            print(f"{name}: held-out masked-language loss {held_out:.3f}", flush=True)
        if step == n_steps:
            break
        length = LENGTHS[step % len(LENGTHS)]
        starts = torch.randint(len(learned) - length, (TOKENS // length,), generator=generator)
        ids, labels = mask(tokenizer, cut(tokenizer, learned, starts, length), generator)
        loss = find_loss(model, ids, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        plan.step()
    with (folder / "losses.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [("step", "held_out_loss", "seconds"), ("frequencies", frequent, 0), *losses]
        )


if __name__ == "__main__":
    main()
