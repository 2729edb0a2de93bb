"""What a decoder loses with a KV cache chosen by a run: measures docs/results/kv-cache.md.

    python -m benchmarks.kv_cache measure FOLDER --model SMOLLM2_FOLDER   # 25 minutes
    python -m benchmarks.kv_cache page FOLDER > docs/results/kv-cache.md

Heads are chosen on every other article of enwiki.txt and scored on the others. Every number on the
page is read from a run or from scores.json. What is already in FOLDER stays.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

import headscope as hs
from benchmarks.pages import Page, by_name, markdown, measure_or_write, measure_runs, shared_paths
from headscope.corpora.needles import ANSWER, Needles
from headscope.corpora.opening import as_corpora
from headscope.corpora.repeats import Repeats
from headscope.models import tap
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel

MEASURES = ("reach", "retrieval", "induction")
FIRST, LAST, HAYSTACK = 4, 64, 400
RUNS = {
    "smollm2": "analyze smollm2-135m --text odd.txt --max-tokens 512 --limit 60 --only "
    f"reach,retrieval,induction --haystack {HAYSTACK} --trials 40"
}
KEPT = (0.75, 0.5, 0.25)  # of all KV heads
N_RANDOM, N_TEXTS, N_TRIALS, N_REPEATS = 3, 16, 24, 24
N_TOKENS, SCORED_FROM = 512, 128  # of a text
TASKS = {
    "text": "ordinary text, nats a token",
    "fact": "hidden fact, nats a token of the answer",
    "repeat": "second copy of random tokens, nats a token",
}
SCORES = "scores.json"

Keeps = np.ndarray[Any, np.dtype[np.bool_]]  # [layer, KV head]
Sequences = Sequence[tuple[Tensor, Tensor]]  # the ids of an input, and the places that are scored


def measure(folder: Path, model: Path | None) -> None:
    """The run, its patterns, and the loss with each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {**shared_paths(), "smollm2-135m": str(model)}
    articles = Path(paths["enwiki.txt"]).read_text().split("\n\n")
    for name, half in (("odd.txt", articles[::2]), ("even.txt", articles[1::2])):
        paths[name] = str(folder / name)
        (folder / name).write_text("\n\n".join(half))
    measure_runs(folder, RUNS, paths)
    if not (folder / SCORES).exists():
        source = load_model(str(model), with_head=True)
        tasks = make_tasks(source, folder / "even.txt", articles[1::2])
        scores = {
            name: score(source, tasks, keeps) for name, keeps in make_patterns(folder).items()
        }
        (folder / SCORES).write_text(json.dumps(scores))


def make_tasks(source: LoadedModel, text: Path, articles: Sequence[str]) -> dict[str, Sequences]:
    """The inputs of each task, each with the places of the tokens that are to be predicted."""
    texts = [
        source.encoder.tokenizer(article, return_tensors="pt")["input_ids"] for article in articles
    ]
    long = [ids[:, :N_TOKENS] for ids in texts if ids.shape[1] >= N_TOKENS][:N_TEXTS]
    (corpus,) = as_corpora(text, "text")
    facts = source.encode(list(Needles(corpus, HAYSTACK, N_TRIALS, seed=1)), 4 * HAYSTACK)
    copies = source.encode(list(Repeats(2 * LAST, N_REPEATS, seed=1)), 4 * LAST + 2)
    return {
        "text": [(ids, torch.arange(SCORED_FROM, N_TOKENS)) for ids in long],
        "fact": [
            (ids_of(e), torch.from_numpy(np.flatnonzero(e.word_ids == ANSWER))) for e in facts
        ],
        "repeat": [(ids_of(e), torch.arange(len(e) - 2 * LAST, len(e))) for e in copies],
    }


def ids_of(encoding: Any) -> Tensor:
    """The tokens of an input, `[1, token]`."""
    return torch.as_tensor(encoding.inputs["input_ids"])[None]


def make_patterns(folder: Path) -> dict[str, Keeps | None]:
    """Which KV heads keep all keys, by name: "full", or a choice and the share that is kept."""
    patterns: dict[str, Keeps | None] = {"full": None}
    scores = read_scores(folder)
    shape = scores["reach"].shape
    orders = {name: (-values).argsort(axis=None) for name, values in scores.items()}
    for draw in range(N_RANDOM):
        orders[f"random {draw}"] = np.random.default_rng(draw).permutation(np.prod(shape))
    for share in KEPT:
        for name, order in orders.items():
            keeps = np.zeros(shape, bool)
            keeps.flat[order[: round(share * len(order))]] = True
            patterns[f"{name} {share}"] = keeps
    return patterns


def read_scores(folder: Path) -> dict[str, Any]:
    """The numbers of each measure by layer and KV head, exported as a user would."""
    scores = {}
    for name in MEASURES:
        out = folder / "patterns" / name
        if not out.exists():
            hs.export(folder / "smollm2", out, "duoattention", measure=name)
        scores[name] = np.loadtxt(out / "full_attention_heads.tsv", delimiter="\t")
    return scores


def score(
    source: LoadedModel, tasks: Mapping[str, Sequences], keeps: Keeps | None
) -> dict[str, list[float]]:
    """The mean loss of every input."""
    print(".", end="", flush=True, file=sys.stderr)
    attend = tap_with(keeps)
    with tap.replaced_attention(source.model, attend), torch.inference_mode():
        return {
            task: [loss(source.model, *sequence) for sequence in sequences]
            for task, sequences in tasks.items()
        }


def tap_with(keeps: Keeps | None) -> Callable[..., Tensor]:
    """The model's own attention; heads that do not keep all keys see the first and recent ones."""

    def attend(module: Any, query: Tensor, key: Tensor, *args: Any, **options: Any) -> Tensor:
        values, mask = tap.values_and_mask((query, key, *args), options)
        options.pop("attention_mask", None)
        assert mask is not None  # a decoder has one
        if keeps is not None:
            n_queries, n_keys = query.shape[-2], key.shape[-2]
            rows, keys = torch.arange(n_queries)[:, None], torch.arange(n_keys)
            beyond = (rows - keys >= LAST) & (keys >= FIRST)
            own = torch.from_numpy(keeps[module.layer_idx])
            drops = ~own.repeat_interleave(query.shape[1] // len(own))  # by query head
            hidden = drops[:, None, None] & beyond  # [head, query, key]
            mask = mask[..., :n_keys].masked_fill(hidden, torch.finfo(query.dtype).min)
        output, _ = tap.find_eager(type(module))(module, query, key, values, mask, **options)
        return output

    return attend


def loss(model: nn.Module, ids: Tensor, places: Tensor) -> float:
    """Mean nats of the tokens at these places."""
    states = model.model(ids).last_hidden_state[0, places - 1]
    logits = model.lm_head(states).float()
    return float(nn.functional.cross_entropy(logits, ids[0, places]))


# The page.


def load(page: Page) -> dict[str, dict[str, list[float]]]:
    scores: dict[str, dict[str, list[float]]] = json.loads((page.folder / SCORES).read_text())
    return scores


def losses(page: Page) -> str:
    """What is lost with each choice of heads, as a paired difference from the full cache."""
    full = load(page)["full"]
    header = ("KV heads with all keys", "chosen by", *TASKS.values())
    means = (f"{np.mean(full[task]):.2f}" for task in TASKS)
    rows = [("100%", "full cache: the loss itself", *means)]
    for share in KEPT:
        for name in (*MEASURES, "random"):
            label = f"random, mean of {N_RANDOM} draws" if name == "random" else f"`{name}`"
            lost = (mean_loss(page, name, share, task) - np.array(full[task]) for task in TASKS)
            rows.append((f"{share:.0%}", label, *map(interval, lost)))
    return markdown(header, rows)


def beside_random(page: Page) -> str:
    """What is lost more than with random heads, as a paired difference."""
    rows = [
        (
            *(f"{share:.0%}", f"`{name}`"),
            *(
                interval(mean_loss(page, name, share, t) - mean_loss(page, "random", share, t))
                for t in TASKS
            ),
        )
        for share in KEPT
        for name in MEASURES
    ]
    return markdown(("KV heads with all keys", "chosen by", *TASKS.values()), rows)


def mean_loss(page: Page, name: str, share: float, task: str) -> np.ndarray[Any, Any]:
    """The loss of every input; of random heads the mean over draws."""
    scores = load(page)
    chosen = [scores[key][task] for key in scores if is_choice(key, name, share)]
    mean: np.ndarray[Any, Any] = np.mean(chosen, axis=0)
    return mean


def is_choice(key: str, name: str, share: float) -> bool:
    return key.startswith(name) and key.endswith(f" {share}")


def interval(differences: np.ndarray[Any, Any]) -> str:
    """A mean over inputs with its 95 % interval by Student's t."""
    n, mean = len(differences), differences.mean()
    half = student.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5
    return f"{mean:+.2f} [{mean - half:+.2f} to {mean + half:+.2f}]"


def overlap(page: Page) -> str:
    """How many KV heads are in the upper halves of two patterns."""
    scores = read_scores(page.folder)
    top = {n: set((-v).argsort(axis=None)[: v.size // 2].tolist()) for n, v in scores.items()}
    size = scores["reach"].size
    rows = [(f"`{a}` and `{b}`", str(len(top[a] & top[b]))) for a, b in combinations(MEASURES, 2)]
    return markdown(("", f"in both upper halves ({size / 4:g} of {size // 2} by chance)"), rows)


def heads(page: Page) -> str:
    """The query heads that retrieve best, with their three numbers."""
    table, keys = page.table("smollm2", "retrieval"), ["layer", "head"]
    for name, column, where in (
        ("induction", "weight", {"pattern": "induction"}),
        ("reach", "beyond", {}),
    ):
        table = table.merge(page.table("smollm2", name, **where)[[*keys, column]], on=keys)
    rows = [
        (f"{r.layer}-{r.head}", *(f"{100 * v:.0f} %" for v in (r.copied, r.weight, r.beyond)))
        for r in table.nlargest(3, "copied").itertuples()
    ]
    return markdown(("head", "`retrieval`", "`induction`", "`reach`"), rows)


MAKERS = by_name(losses, beside_random, overlap, heads)

if __name__ == "__main__":
    measure_or_write("kv_cache", RUNS, MAKERS, measure)
