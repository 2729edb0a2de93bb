"""The paper on a true BERT-base: measures the runs of docs/results/bert-base.md, writes that page.

    python -m benchmarks.paper measure FOLDER --model BERT_BASE_FOLDER   # half an hour
    python -m benchmarks.paper page FOLDER > docs/results/bert-base.md

Every number on the page is read from a table of these runs. What is already in FOLDER stays.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from time import process_time

from safetensors.torch import load_file, save_file
from tests.e2e.test_trained_language_models import REACTIONS, load_reaction_model

import headscope as hs
from benchmarks.findings import WIKI
from benchmarks.pages import (
    FILES,
    SHARED,
    Page,
    best_head,
    by_name,
    markdown,
    measure_or_write,
    measure_runs,
    points,
    share,
    shared_paths,
)
from benchmarks.workload import forward
from headscope.analyses.dependency.tables import PAPER_TABLE_1, UNIVERSAL
from headscope.contracts import CorpusRole
from headscope.corpora.collection import adopt
from headscope.corpora.opening import open_corpus
from headscope.corpora.repeats import Repeats
from headscope.data.counts import ExampleCounts
from headscope.engine.sample import draw_sample
from headscope.engine.windows import encode_windows
from headscope.models.encode import equal_length_batches
from headscope.models.load import load_model

SURFACE = f"{WIKI} --limit-text 150 --only position,special-tokens,entropy"
TREES = "--treebank gum.conllx --limit-treebank 800 --only dependency"
RUNS = {
    "bert": f"analyze bert-base {WIKI} --limit-text 300 --treebank gum.conllx --coref ontogum "
    "--coref-window both",
    "bert-ewt": "analyze bert-base --treebank ewt-dev.conllu --only dependency",
    "bert-untrained": f"analyze bert-base {TREES} --null 5",
    "bert-surface": f"analyze bert-base {SURFACE}",
    "e5-surface": f"analyze e5-small {SURFACE}",
    "e5-trees": f"analyze e5-small {TREES}",
    "rounded-surface": f"analyze e5-small-int8 {SURFACE}",
    "rounded-trees": f"analyze e5-small-int8 {TREES}",
    "probe": "probe bert-base --train ewt-train.conllu --test ewt-dev.conllu --vectors "
    "glove.txt.gz --sentences 3000 --seeds 3 --no-curve --no-parts",
}
PAPER_TABLE_3 = {  # UAS; of the structural probe without direction
    "right-branching": "26", "distances-and-words": "58", "attention-only": "61",
    "attention-and-words": "77", "structural-probe": "80 (UUAS)",
    "random-init-attention-and-words": "30",
}  # fmt: skip
PAPER_HEADS = {  # what the paper's named heads do, as a table and its rows
    "8-10 (direct objects)": "dobj", "8-11 (determiners)": "det", "4-10 (passive auxiliaries)":
    "auxpass", "7-6 (possessors)": "poss", "9-6 (objects of prepositions)": "pobj",
}  # fmt: skip


def round_weights(folder: Path, out: Path) -> None:
    """A copy of a model whose matrices are rounded to 8 bits each, and widened again."""
    copytree(folder, out, dirs_exist_ok=True)
    tensors = load_file(out / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            step = tensor.float().abs().max() / 127
            tensors[name] = ((tensor.float() / step).round() * step).to(tensor.dtype)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def measure(folder: Path, model: Path | None) -> None:
    """Every run into its folder."""
    rounded = folder / "e5-small-int8"
    if not rounded.exists():
        round_weights(SHARED / FILES["e5-small"], rounded)
    measure_runs(
        folder, RUNS, shared_paths() | {"bert-base": str(model), "e5-small-int8": str(rounded)}
    )
    if not (folder / "reactions").exists():
        hs.analyze(
            load_reaction_model(), text=REACTIONS, only="gradient,special-tokens",
            out=folder / "reactions", progress=False,
        )  # fmt: skip
    if model and not (folder / "bare-cost.json").exists():
        cost = {"cpu_seconds": sum(bare_seconds(folder / "bert", model))}
        (folder / "bare-cost.json").write_text(json.dumps(cost))


def bare_seconds(run: Path, model: Path) -> Iterator[float]:
    """CPU seconds of the bare model (SDPA) over the tokens of each pass of a run."""
    files = {"text": "enwiki.txt", "treebank": "gum.conllx", "coref": "ontogum"}
    source, manifest = load_model(model), hs.load_run(run).manifest
    for key, about in manifest["passes"].items():
        role, is_made = CorpusRole(about["role"]), about["corpus"] == "repeats"
        corpus = Repeats() if is_made else open_corpus(SHARED / FILES[files[role]], role)
        max_tokens = about["window"] or (128 if role is CorpusRole.TEXT else source.max_tokens)
        examples = list(draw_sample(adopt(corpus), about["examples"], manifest["options"]["seed"]))
        is_cut = role is CorpusRole.TEXT or about["cut"] == "truncate"
        encodings = encode_windows(examples, source, role, max_tokens, ExampleCounts(), is_cut)
        batches = [source.batch(b).inputs for b in equal_length_batches(encodings, 2048)]
        n_tokens = sum(map(len, encodings))
        start = process_time()
        forward(source, batches, "sdpa")
        yield process_time() - start
        read = manifest["counts"][key]["tokens"]
        print(f"{key}: {n_tokens} tokens, {read} in the run", file=sys.stderr)


def relations(page: Page) -> str:
    """Table 1: the best head of each relation, held out, beside the paper's."""
    best = page.table("bert", "dependency-best").set_index("relation", drop=False)
    ewt = page.table("bert-ewt", "dependency-best")
    ewt = ewt.assign(name=ewt["relation"].map(lambda name: UNIVERSAL.get(name, name)))
    ewt = ewt.set_index("name")
    rows = []
    for name, (head, accuracy, offset) in PAPER_TABLE_1.items():
        row = best.loc[name]
        other = best_head(ewt.loc[name]).partition(";")[0] if name in ewt.index else ""
        rows.append(
            (
                *(name, f"{row['count']:,}", best_head(row), points(row, "heldout_difference")),
                f"{share(row['baseline_accuracy'])} ({row['offset']:+d})",
                *(f"{head} {accuracy} ({offset})", other),
            )
        )
    header = ("relation", "words", "here", "above the offset", "offset")
    return markdown((*header, "paper (offset)", "here, on UD EWT dev"), rows)


def named_heads(page: Page) -> str:
    """Which heads of this model do what the paper's named heads do."""
    every = page.table("bert", "dependency", direction="dependent-to-head")
    found = page.table("bert", "dependency")
    rows = []
    for called, relation in PAPER_HEADS.items():
        of = found if relation == "pobj" else every
        top = of[of["relation"] == relation].nlargest(3, "accuracy")
        rows.append(
            (called, *(f"{r.layer}-{r.head} {share(r.accuracy)}" for r in top.itertuples()))
        )
    return markdown(("the paper's head", "here", "next", "next"), rows)


def antecedents(page: Page) -> str:
    """Table 2: the paper's protocol, and whole documents."""
    paper = {"all": (27, 52, 69, 65), "pronoun": (29, 47, 70, 64), "proper": (29, 67, 77, 73)}
    paper["nominal"] = (19, 40, 60, 58)
    best = page.table("bert", "coreference-best")
    rows = []
    for cut, window in (("truncate", 128), ("split", 128)):
        for candidates in ("words", "mentions"):
            part = best[(best["cut"] == cut) & (best["window"] == window)]
            part = part[part["candidates"] == candidates]
            for row in part.to_dict("records"):
                systems = [share(row[name]) for name in ("nearest", "head_match", "rule_based")]
                rows.append(
                    (
                        "cut to 128 tokens" if cut == "truncate" else "whole, in windows",
                        *(f"all {candidates}", row["mention_type"], f"{row['count']:,}"),
                        *(*systems, best_head(row, "mention-to-antecedent", "a>m")),
                        " ".join(map(str, paper[row["mention_type"]])),
                    )
                )
    header = ("documents", "candidates", "mentions", "count", "nearest", "head match", "rules")
    return markdown((*header, "best head", "paper: nearest, match, rules, head 5-4"), rows)


def neighbours(page: Page) -> str:
    """Section 3.1: heads with over half on a neighbour."""
    position = page.table("bert", "position")
    paper = {"previous": "4 heads, layers 2, 4, 7, 8", "next": "5 heads, layers 1, 2, 2, 3, 6"}
    rows = []
    for target, said in paper.items():
        heads = position[(position["target"] == target) & (position["weight"] > 0.5)]
        named = [
            f"{r.layer}-{r.head} {share(r.weight, r.low, r.high)}"
            for r in heads.sort_values("weight", ascending=False).itertuples()
        ]
        rows.append((target, f"{len(heads)}: {', '.join(named)}", said))
    return markdown(("over half on the", "here, %", "paper"), rows)


def layers(page: Page) -> str:
    """Sections 3.2 and 3.3 by layer: means over heads."""
    lines = {
        "to [SEP], %": page.layers("bert", source="all", target="sep"),
        "to [CLS], %": page.layers("bert", source="all", target="cls"),
        "to periods and commas, %": page.layers("bert", source="all", target="punctuation"),
        "from [SEP] to [SEP], %": page.layers("bert", source="sep", target="sep"),
        "entropy, all tokens, % of even": page.layers("bert", "entropy.share", rows="all"),
        "entropy, from [CLS], % of even": page.layers("bert", "entropy.share", rows="cls"),
    }
    rows = [(name, *(f"{100 * value:.0f}" for value in values)) for name, values in lines.items()]
    return markdown(("mean over heads", *map(str, range(1, 13))), rows)


def rounding(page: Page) -> str:
    """How far e5-small's numbers move if its weights are rounded as this model's are."""
    rows = []
    for run, table, column, keys in (
        ("surface", "position", "weight", ["layer", "head", "target"]),
        ("surface", "special-tokens-heads", "weight", ["layer", "head"]),
        ("surface", "entropy", "nats", ["layer", "head", "rows"]),
        ("trees", "dependency-best", "heldout_accuracy", ["relation"]),
    ):
        sides = [page.table(f"{name}-{run}", table) for name in ("e5", "rounded")]
        both = sides[0].merge(sides[1], on=keys, suffixes=("", "_rounded"))
        if table == "dependency-best":
            both = both[both["count"] >= 100]
        moved = (both[column] - both[f"{column}_rounded"]).abs()
        scale = 1 if column == "nats" else 100
        unit = "nats" if column == "nats" else "points"
        cells = (f"{scale * moved.mean():.2g}", f"{scale * moved.max():.2g}", unit)
        rows.append((f"{table}, {column}", f"{len(both)}", *cells))
    return markdown(("table and column", "numbers", "mean change", "largest", "unit"), rows)


def untrained(page: Page) -> str:
    """The best heads of the same model with random weights, the mean of five draws."""
    best = page.table("bert-untrained", "dependency-best").set_index("relation", drop=False)
    rows = [
        (name, best_head(row), share(row["untrained_accuracy"]), share(row["chance_accuracy"]))
        for name, row in best.iterrows()
        if name in ("all", "det", "dobj", "nsubj", "pobj", "poss", "auxpass")
    ]
    return markdown(("relation", "here", "untrained (5 draws)", "arcs moved at random"), rows)


def probes(page: Page) -> str:
    """Table 3: all heads together."""
    table = page.table("probe", "probes")
    rows = [
        (row["probe"], share(row["uas"], row["low"], row["high"]), share(row["uuas"]), known)
        for row in table.to_dict("records")
        for known in [PAPER_TABLE_3.get(row["probe"], "")]
    ]
    return markdown(("probe", "UAS", "UUAS", "paper: UAS"), rows)


def cost(page: Page) -> str:
    """What the first run cost beside the bare passes over the same tokens."""
    study, model = (
        json.loads((page.folder / f"{name}-cost.json").read_text()) for name in ("bert", "bare")
    )
    whole, bare = study["cpu_seconds"], model["cpu_seconds"]
    return (
        f"That run took {whole:.0f} s of CPU time, from loading the libraries to writing the page, "
        f"and {study['peak_bytes'] / 2**30:.1f} GB of memory. The bare model (SDPA) takes "
        f"{bare:.0f} s for the same tokens: the whole study costs {whole / bare:.2f} times as much."
    )


def answers(page: Page) -> str:
    """The sentences of the run."""
    return page.answers("bert")


def pair(page: Page) -> str:
    """Cased BERT-base and an uncased, smaller BERT on the same text."""
    found = hs.compare([page.folder / "bert-surface", page.folder / "e5-surface"])
    return "\n".join(f"- {answer}" for answer in found.answers)


def gradients(page: Page) -> str:
    """Figure 3 on a model that has a masked-language-modelling head."""
    table = page.table("reactions", "gradient")
    means = table.groupby(["target", "layer"])["gradient"].mean().unstack().dropna()
    rows = [
        (target, *(f"{1e4 * value:.1f}" for value in values)) for target, values in means.iterrows()
    ]
    return markdown(("gradient to, 1e-4", *map(str, means.columns)), rows)


def distances(page: Page) -> str:
    """Section 6: whether heads of a layer are close."""
    row = page.table("bert", "distance-layers")
    row = row[row["layer"].isna()].iloc[0]
    ends = [
        f"{row[name]:.3f} [{row[f'{name}_low']:.3f}-{row[f'{name}_high']:.3f}]"
        for name in ("within", "between")
    ]
    return markdown(
        ("within a layer, nats", "between layers", "p"), [(*ends, f"{row['p_value']:.4f}")]
    )


def claims(page: Page) -> str:
    """The paper's claims: what does not hold first."""
    order = ("does not hold", "undecided", "holds")
    findings = [f for f in hs.load_run(page.folder / "bert").findings if f.verdict in order]
    findings = [f for f in findings if f.claim.section[:1].isdigit()]
    findings.sort(key=lambda finding: order.index(finding.verdict))
    rows = [(f.verdict, f.claim.section, f.claim.says, f.shows) for f in findings]
    return markdown(("verdict", "section", "claim", "here"), rows)


def summary(page: Page) -> str:
    """How many claims hold, and what was read in how much time."""
    run = hs.load_run(page.folder / "bert")
    verdicts = [f.verdict for f in run.findings if f.claim.section[:1].isdigit()]
    counts = {name: verdicts.count(name) for name in ("holds", "does not hold", "undecided")}
    tokens = sum(count["tokens"] for count in run.manifest["counts"].values())
    return (
        f"{counts['holds']} claims hold, {counts['does not hold']} do not, "
        f"{counts['undecided']} are undecided. The run read {tokens:,} tokens."
    )


MAKERS = by_name(
    *(relations, named_heads, antecedents, neighbours, layers, rounding, untrained, pair),
    *(gradients, distances, claims, summary, probes, cost, answers),
)

if __name__ == "__main__":
    measure_or_write("paper", RUNS, MAKERS, measure)
