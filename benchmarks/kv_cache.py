"""What a decoder loses when only some KV heads keep all keys: the table of docs/howto/kv-cache.md.

    python -m benchmarks.kv_cache RUN MODEL_FOLDER TEXT     # ten minutes of a core

Patterns come from `headscope export` of RUN. KV heads outside of the kept share see the first and
the recent tokens alone, as DuoAttention's streaming heads do. Measured are the loss of tokens with
at least 128 before them, and how often a fact hidden in other text than the run's is given back.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AutoModelForCausalLM

import headscope as hs
from headscope.corpora.needles import ANSWER, Needles
from headscope.data.encoding import Encoding
from headscope.errors import StudyError

SINK, RECENT = 4, 64
SHARES = (0.5, 0.25)
N_WINDOWS, N_TOKENS, N_TRIALS, N_RANDOM = 6, 512, 16, 2
LATE = 128  # tokens before a token whose loss counts
MEASURES = ("reach", "retrieval", "induction")
kept: torch.Tensor  # which KV heads see everything: [layer, group]


def attend(
    module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any
) -> tuple[Any, None]:
    """Causal attention, with a window for the query heads whose KV head is not kept."""
    n_shared, n = query.shape[1] // key.shape[1], query.shape[2]
    key, value = (part.repeat_interleave(n_shared, dim=1) for part in (key, value))
    rows, keys = torch.arange(n)[:, None], torch.arange(n)
    is_near = (rows - keys < RECENT) | (keys < SINK)
    sees_all = kept[module.layer_idx].repeat_interleave(n_shared)[:, None, None]
    is_seen = (keys <= rows) & (is_near | sees_all)  # [head, query, key]
    scores = (query @ key.transpose(2, 3)) * more["scaling"]
    weights = scores.masked_fill(~is_seen, -torch.inf).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), None


def patterns(run: str, shape: tuple[int, int]) -> Iterator[tuple[str, np.ndarray]]:
    """The kept heads of each pattern, and of random ones, as readers choose them."""
    yield "all heads keep all keys", np.ones(shape, bool)
    rng = np.random.default_rng(0)
    scores = {f"random {n + 1}": rng.random(shape) for n in range(N_RANDOM)}
    for measure in MEASURES:
        with TemporaryDirectory() as folder:
            try:
                path = hs.export(run, Path(folder) / "kv", "duoattention", measure=measure)
            except StudyError as error:
                print(error, file=sys.stderr)
                continue
            scores[measure] = np.loadtxt(path / "full_attention_heads.tsv", delimiter="\t")
    for share in SHARES:
        for name, values in scores.items():
            yield f"{name}, {share:.0%}", values > np.quantile(values, 1 - share)
    yield "no head keeps all keys", np.zeros(shape, bool)


def measure(model: Any, windows: torch.Tensor, trials: Sequence[Encoding]) -> dict[str, float]:
    """The mean loss of late tokens, and the share of trials with every token of the answer."""
    losses, answered = [], []
    with torch.inference_mode():
        for window in windows:
            loss = torch.nn.functional.cross_entropy(
                model(window[None]).logits[0, :-1].float(), window[1:], reduction="none"
            )
            losses.append(loss[LATE:].mean().item())
        for trial in trials:
            ids = torch.as_tensor(np.asarray(trial.inputs["input_ids"]))
            at = np.flatnonzero(trial.word_ids == ANSWER)
            best = model(ids[None]).logits[0].argmax(-1)
            answered.append(bool((best[at - 1] == ids[at]).all()))
    return {"loss": float(np.mean(losses)), "answered": float(np.mean(answered))}


def main(run: str, folder: str, text: str) -> None:
    """Print a row for each pattern."""
    global kept
    source = hs.load_model(folder)
    paragraphs = [example.text or "" for example in hs.open_corpus(text, "text")]
    late = hs.texts(paragraphs[len(paragraphs) // 2 :])  # the run read the first ones
    ids = [
        t for e in source.encode(list(late)[:200], N_TOKENS) for t in e.inputs["input_ids"].tolist()
    ]
    windows = torch.tensor(ids[: N_WINDOWS * N_TOKENS]).view(-1, N_TOKENS)
    needles = Needles(late, 300, N_TRIALS, seed=1)
    trials = source.encode(list(needles), needles.most_tokens)
    AttentionInterface.register("kv_pattern", attend)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="kv_pattern").eval()
    shape = model.config.num_hidden_layers, model.config.num_key_value_heads
    print("| KV heads that keep all keys | loss | facts given back |\n|---|---|---|")
    for name, heads in patterns(run, shape):
        kept = torch.from_numpy(heads)
        row = measure(model, windows, trials)
        print(f"| {name} | {row['loss']:.2f} | {100 * row['answered']:.0f} % |", flush=True)
        print(json.dumps({"name": name, "kept": float(heads.mean()), **row}), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
