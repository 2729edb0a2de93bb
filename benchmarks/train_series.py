"""Trains a small BERT from scratch and keeps checkpoints, to watch heads appear.

    python -m benchmarks.train_series ../shared/data/text/enwiki.txt series
    for s in series/step-*; do headscope analyze $s --text ... --out runs/$(basename $s); done
    headscope compare --series "runs/step-*" --out training

The tokenizer is trained on the same text. Of every tenth article the loss is measured and nothing
is learned; the folder `series` also has `losses.csv`.
"""

import argparse
import csv
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import torch
from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

CHECKPOINTS = (0, 0.01, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.7, 1)  # of all steps: denser at first
VOCABULARY, LAYERS, HEADS, HIDDEN = 4000, 4, 4, 128
LENGTH, BATCH, RATE, WARM_UP = 64, 32, 1e-3, 0.1
MASKED, IGNORED = 0.15, -100


def main() -> None:
    """Train, and write `FOLDER/step-N` for ten steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("text", type=Path, help="A paragraph a line, a blank line between articles")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    disable_progress_bar()
    given.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(given.text)
    learned, kept_out = (list(part) for part in split_articles(given.text))
    train(tokenizer, cut(tokenizer, learned), cut(tokenizer, kept_out), given.folder, given.steps)


def split_articles(path: Path) -> tuple[Iterator[str], Iterator[str]]:
    """Articles to learn from, and every tenth, to measure the loss on."""
    articles = path.read_text().strip().split("\n\n")
    return (a for i, a in enumerate(articles) if i % 10), iter(articles[::10])


def train_tokenizer(path: Path) -> PreTrainedTokenizerFast:
    """WordPiece, uncased, from the text alone."""
    made = BertWordPieceTokenizer(lowercase=True)
    made.train([str(path)], vocab_size=VOCABULARY, min_frequency=3, show_progress=False)
    own = made._tokenizer
    own.post_processor = BertProcessing(*(((t, own.token_to_id(t))) for t in ("[SEP]", "[CLS]")))
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "pad", "unk")
    }
    return PreTrainedTokenizerFast(tokenizer_object=own, model_max_length=LENGTH, **special)


def cut(tokenizer: PreTrainedTokenizerFast, articles: Sequence[str]) -> Tensor:
    """Segments of equal length, [CLS] ... [SEP]: [segment, token]."""
    special = tokenizer.cls_token_id, tokenizer.sep_token_id
    rows = []
    for article in articles:
        ids = tokenizer(article, add_special_tokens=False, verbose=False)["input_ids"]
        whole = range(0, len(ids) - LENGTH + 3, LENGTH - 2)
        rows += [[special[0], *ids[i : i + LENGTH - 2], special[1]] for i in whole]
    return torch.tensor(rows)


def mask(
    tokenizer: PreTrainedTokenizerFast, ids: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The input with masks, and the labels: 15 %, of these 80 % masked and 10 % random."""
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
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    n_warm = WARM_UP * n_steps
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / n_warm, (n_steps - s) / (n_steps - n_warm))
    )
    kept, losses, start = {round(part * n_steps) for part in CHECKPOINTS}, [], perf_counter()
    generator = torch.Generator().manual_seed(0)
    tested = mask(tokenizer, kept_out, torch.Generator().manual_seed(1))
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
        chosen = torch.randint(len(learned), (BATCH,), generator=generator)
        ids, labels = mask(tokenizer, learned[chosen], generator)
        loss = find_loss(model, ids, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        plan.step()
    with (folder / "losses.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("step", "held_out_loss", "seconds"), *losses])


if __name__ == "__main__":
    main()
