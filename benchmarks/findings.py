"""What small models show: measures the runs of docs/results/small-models.md, and writes that page.

    python -m benchmarks.findings measure FOLDER --model SMOLLM2_FOLDER   # an hour of one core
    python -m benchmarks.findings page FOLDER > docs/results/small-models.md

Every number on the page is read from a table of these runs. What is already in FOLDER stays.
"""

from functools import partial
from pathlib import Path

import pandas as pd

import headscope as hs
from benchmarks.pages import (
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
from headscope.analyses.dependency.tables import PAPER_TABLE_1, UNIVERSAL

WIKI = "--text enwiki.txt --paper-segments"
COREF = "--coref ontogum --coref gap.tsv --only coreference,gap --coref-window both --null 1"
LAYOUT = f"{WIKI} --treebank ewt-dev.conllu --limit 300 --only "
LAYOUT += "position,special-tokens,entropy,distance,dependency"
ATLAS = f"{WIKI} --treebank ewt-dev.conllu --coref ontogum --limit-text 200 "
ATLAS += "--limit-treebank 500 --limit-coref 15 --null 1"
PROBE = "--train ewt-train.conllu --test ewt-dev.conllu --vectors glove.txt.gz "
PROBE += "--sentences 1000 --seeds 3"
NAMES = {"demo": "demo", "e5": "e5-small"}
RUNS = {
    **{
        f"{short}-{name}": f"analyze {model} --treebank {file} --only dependency,trees --null 1"
        for short, model in NAMES.items()
        for name, file in (("gum", "gum.conllx"), ("ewt", "ewt-dev.conllu"))
    },
    **{f"{short}-coref": f"analyze {model} {COREF}" for short, model in NAMES.items()},
    **{f"{short}-layout": f"analyze {model} {LAYOUT}" for short, model in NAMES.items()},
    **{f"{short}-probe": f"probe {model} {PROBE}" for short, model in NAMES.items()},
    "e5-sep": f"analyze e5-small {WIKI} --limit 150 --only special-tokens",
    "e5-sep-norm": f"analyze e5-small {WIKI} --limit 150 --only special-tokens --weights norm",
    "e5-gum-norm": "analyze e5-small --treebank gum.conllx --only dependency --weights norm",
    "e5-ablation": f"analyze e5-small {WIKI} --limit 6 --only ablation",
    "smol-gum": "analyze smollm2 --treebank gum.conllx --coref ontogum --limit-treebank 500 "
    "--limit-coref 40 --only dependency,coreference",
    "smol-gradient": f"analyze smollm2 {WIKI} --limit 40 --only gradient,special-tokens",
    "smol-sep-norm": f"analyze smollm2 {WIKI} --limit 40 --only special-tokens --weights norm",
    "distance-two": f"distance demo e5-small {WIKI} --limit 200",
    "distance-random": f"distance demo random-init:e5-small {WIKI} --limit 200",
    **{
        f"atlas-{short}": f"analyze {model} {ATLAS}"
        for short, model in (*NAMES.items(), ("smol", "smollm2"))
    },
}
UPPER = ("dobj", "pobj", "det", "aux", "nsubj", "prep", "conj", "cop", "all")


def measure(folder: Path, decoder: Path | None) -> None:
    """Every run into its folder; those of a decoder if there is one."""
    paths = shared_paths()
    paths |= {f"random-init:{name}": f"random-init:{path}" for name, path in paths.items()}
    runs = {n: command for n, command in RUNS.items() if decoder or "smollm2" not in command}
    measure_runs(folder, runs, paths | {"smollm2": str(decoder)})


def relations(page: Page, corpus: str) -> str:
    """The best head of every relation, of both models, beside the paper's."""
    demo, e5 = (page.table(f"{short}-{corpus}", "dependency-best") for short in NAMES)
    rows = []
    for (_, first), (_, second) in zip(demo.iterrows(), e5.iterrows(), strict=True):
        stanford = UNIVERSAL.get(first["relation"], first["relation"])
        known = PAPER_TABLE_1.get(stanford)
        is_shown = known if corpus == "gum" else first["count"] >= 150
        if "rule" in first["relation"] or not (is_shown or first["relation"].startswith("all")):
            continue
        offset = f"{share(first['baseline_accuracy'])} ({first['offset']:+d})"
        paper = f"{known[0]} {known[1]} ({known[2]})" if known else ""
        gain = points(second, "heldout_difference")
        untrained = share(second["untrained_accuracy"])
        cells = (offset, best_head(first), best_head(second), gain, untrained, paper)
        rows.append((first["relation"], f"{first['count']:,}", *cells))
    header = ("relation", "words", "offset", "demo", "e5-small", "e5-small minus offset")
    return markdown((*header, "untrained e5-small", "paper: BERT-base (offset)"), rows)


def decoder_relations(page: Page) -> str:
    """Relations in a decoder, and how many arcs can be seen."""
    best = page.table("smol-gum", "dependency-best").set_index("relation", drop=False)
    rows = [
        (
            *(row["relation"], f"{row['count']:,}", share(row["visible_share"])),
            *(f"{share(row['baseline_accuracy'])} ({row['offset']:+d})", best_head(row)),
            points(row, "heldout_difference"),
        )
        for _, row in best.loc[list(UPPER)].iterrows()
    ]
    header = ("relation", "words", "can be seen", "offset", "best head", "minus offset")
    return markdown(header, rows)


def trees(page: Page) -> str:
    """Whole parses: the best head of each kind of tree, and the baselines."""
    rows = []
    for short, model in NAMES.items():
        for corpus in ("gum", "ewt"):
            table = page.table(f"{short}-{corpus}", "trees")
            heads = table[table["system"] == "head"]
            undirected = heads[heads["tree"] == "undirected"].nlargest(1, "accuracy").iloc[0]
            directed = heads[heads["tree"] != "undirected"].nlargest(1, "accuracy").iloc[0]
            others = table[table["system"] != "head"].set_index("system")["accuracy"]
            cells = [
                f"{row['layer']}-{row['head']} {share(row['accuracy'])}"
                for row in (undirected, directed)
            ]
            chain, right = share(others["adjacent chain"]), share(others["right-branching"])
            rows.append((f"{corpus.upper()}, {model}", cells[0], chain, cells[1], right))
    header = ("treebank, model", "best head UUAS", "adjacent chain", "best head UAS")
    return markdown((*header, "right-branching"), rows)


def antecedents(page: Page, candidates: str) -> str:
    """The best head for antecedents in every window, beside rules and the paper."""
    paper = {"all": "27 52 69 65", "pronoun": "29 47 70 64"}
    paper |= {"proper": "29 67 77 73", "nominal": "19 40 60 58"}
    demo, e5 = (
        page.table(f"{short}-coref", "coreference-best", candidates=candidates) for short in NAMES
    )
    rows = []
    for (_, first), (_, second) in zip(demo.iterrows(), e5.iterrows(), strict=True):
        window = f"{first['window']}{', truncated' * (first['cut'] == 'truncate')}"
        systems = [share(first[name]) for name in ("nearest", "head_match", "rule_based")]
        heads = [best_head(row, "mention-to-antecedent", "a>m") for row in (first, second)]
        gain, untrained = points(second, "heldout_difference"), share(second["untrained_accuracy"])
        mention = first["mention_type"]
        cells = (window, mention, f"{first['count']:,}", *systems, *heads, gain, untrained)
        rows.append((*cells, paper[mention]))
    header = ("window", "mentions", "count", "nearest", "head match", "rules", "demo", "e5-small")
    last = ("e5-small minus rules", "untrained e5-small", "paper: nearest, match, rules, head 5-4")
    return markdown((*header, *last), rows)


def names(page: Page) -> str:
    """GAP, in the window with most pronouns."""
    rows = []
    for short, model in NAMES.items():
        table = page.table(f"{short}-coref", "gap-best", candidates="mentions")
        table = table[table["count"] == table["count"].max()]
        for _, row in table.iterrows():
            if row["system"] == "best head" or (short == "demo" and row["system"] != "head-match"):
                head = "" if pd.isna(row["layer"]) else f" {row['layer']}-{row['head']}"
                system = f"{model}{head}" if row["system"] == "best head" else row["system"]
                cells = share(row["heldout_accuracy"], row["heldout_low"], row["heldout_high"])
                genders = (share(row["masculine"]), share(row["feminine"]))
                ratio = f"{row['ratio']:.2f} [{row['ratio_low']:.2f}-{row['ratio_high']:.2f}]"
                rows.append((system, f"{row['count']}", cells, *genders, ratio))
    header = ("system", "pronouns", "right name, held out", "masculine", "feminine")
    return markdown((*header, "feminine / masculine"), rows)


def sinks(page: Page) -> str:
    """Attention and norm-weighted attention to special tokens, by layer."""
    rows = []
    for target, name in (("sep", "[SEP]"), ("cls", "[CLS]")):
        for run, weights in (("e5-sep", "attention"), ("e5-sep-norm", "norm")):
            means = page.layers(run, source="all", target=target)
            rows.append((f"{name}, {weights}", *(share(mean) for mean in means)))
    return markdown(("layer", *(str(n) for n in means.index)), rows)


def norms(page: Page) -> str:
    """The best heads by attention and by norms."""
    runs = {"attention": "e5-gum", "norm": "e5-gum-norm"}
    shown = ("all", "det", "amod", "aux", "nsubj", "dobj", "pobj", "poss", "ccomp")
    rows = []
    for name, run in runs.items():
        best = page.table(run, "dependency-best").set_index("relation")
        cells = [
            f"{row['layer']}-{row['head']} {share(row['heldout_accuracy'])}"
            for _, row in best.loc[list(shown)].iterrows()
        ]
        rows.append((name, *cells))
    return markdown(("weights", *shown), rows)


def no_op(page: Page) -> str:
    """A decoder's first token: attention, norms and gradients, by layer."""
    shown = [1, 4, 8, 12, 15, 18, 21, 24, 27, 30]
    first = {"source": "all", "target": "first"}
    gradient = page.table("smol-gradient", "gradient").groupby(["target", "layer"])
    means = gradient["gradient"].mean()
    lines = {
        "first token, attention": page.layers("smol-gradient", **first).map(share),
        "first token, norm": page.layers("smol-sep-norm", **first).map(share),
        "gradient to the first token": (1e4 * means["first"]).map("{:.1f}".format),
        "gradient to other tokens": (1e4 * means["other"]).map("{:.1f}".format),
    }
    rows = [(name, *values.loc[shown]) for name, values in lines.items()]
    return markdown(("layer", *map(str, shown)), rows)


def removal(page: Page) -> str:
    """What changes without heads: the mean over a layer for each way to alter them."""
    means = page.table("e5-ablation", "ablation").groupby(["mode", "layer"])["change"].mean()
    rows = [
        (mode, *(f"{1e4 * change:.1f}" for change in means[mode]))
        for mode in ("zero", "mean", "sink")
    ]
    return markdown(("layer", *map(str, means["zero"].index)), rows)


def maps(page: Page) -> str:
    """Heads of one layer and of different layers, and the map."""
    rows = []
    for short, model in NAMES.items():
        layers = page.table(f"{short}-layout", "distance-layers")
        row, layout = (
            layers[layers["layer"].isna()].iloc[0],
            page.table(f"{short}-layout", "layout"),
        )
        ends = [
            f"{row[name]:.3f} [{row[f'{name}_low']:.3f}-{row[f'{name}_high']:.3f}]"
            for name in ("within", "between")
        ]
        close = layers[layers["layer"].notna() & (layers["p_value"] < 0.05)]["layer"]
        cells = (*ends, f"{row['p_value']:.4f}", ", ".join(str(layer) for layer in close))
        rows.append(
            (model, *cells, f"{layout['stress'].iloc[0]:.3f}", f"{layout['cluster'].max()}")
        )
    header = ("model", "divergence within a layer, nats", "between layers", "p")
    return markdown((*header, "layers closer than chance", "stress of the map", "clusters"), rows)


def matches(page: Page) -> str:
    """The heads of two models."""
    rows = []
    for run, name in (("distance-two", "e5-small"), ("distance-random", "untrained e5-small")):
        chance = page.table(run, "head-matches-chance").set_index("matching")
        mutual = page.table(run, "head-matches")["is_mutual"].sum()
        cells = [
            f"{row['divergence']:.3f} [{row['low']:.3f}-{row['high']:.3f}]"
            for row in (chance.loc["one to one, held out"], chance.loc["at random"])
        ]
        rows.append((name, *cells, f"{mutual}"))
    header = ("demo against", "72 matches, held out (nats)", "any two heads")
    return markdown((*header, "each other's nearest"), rows)


def probes(page: Page) -> str:
    """All heads together, of both models."""
    demo, e5 = (page.table(f"{short}-probe", "probes").set_index("probe") for short in NAMES)
    rows = []
    for name in e5.index:
        cells = [
            share(part["uas"], part["low"], part["high"]) if part is not None else ""
            for part in (demo.loc[name] if name in demo.index else None, e5.loc[name])
        ]
        row = e5.loc[name]
        rows.append((name, *cells, *(share(row[part]) for part in ("uuas", "mst_uas", "las"))))
    header = ("probe", "demo: UAS", "e5-small: UAS", "e5-small: UUAS", "MST UAS", "LAS")
    return markdown(header, rows)


def atlas(page: Page) -> str:
    """Three models side by side."""
    models = {"demo": "atlas-demo", "e5-small": "atlas-e5", "SmolLM2": "atlas-smol"}
    lines: dict[str, list[str]] = {}
    for run in models.values():
        position = page.table(run, "position")
        for target in ("previous", "next"):
            row = position[position["target"] == target].nlargest(1, "weight").iloc[0]
            cell = f"{row['layer']}-{row['head']} {share(row['weight'], row['low'], row['high'])}"
            cell = cell if row["weight"] else "cannot see it"
            lines.setdefault(f"strongest head for the {target} token", []).append(cell)
        best = page.table(run, "dependency-best").set_index("relation")
        for relation in ("obj", "det", "case", "nsubj"):
            cell = best_head(best.loc[relation])
            lines.setdefault(f"best head for `{relation}`", []).append(cell)
        coref = page.table(run, "coreference-best", candidates="mentions", mention_type="all")
        for _, row in coref.iterrows():
            cell = best_head(row, "mention-to-antecedent", "a>m")
            lines.setdefault(f"antecedents, {row['window']} tokens", []).append(cell)
            lines.setdefault(f"rules, {row['window']} tokens", []).append(share(row["rule_based"]))
    rows = [(name, *cells) for name, cells in lines.items()]
    return markdown(("", *models), rows)


def claims(page: Page) -> str:
    """The verdict on every claim that was measured for one of three models."""
    models = {"demo": "atlas-demo", "e5-small": "atlas-e5", "SmolLM2": "atlas-smol"}
    findings = [hs.load_run(page.folder / run).findings for run in models.values()]
    rows = []
    for of_models in zip(*findings, strict=True):
        verdicts = [finding.verdict for finding in of_models]
        if set(verdicts) != {"not measured"}:
            rows.append((of_models[0].claim.section, of_models[0].claim.says, *verdicts))
    return markdown(("section", "claim", *models), rows)


MAKERS = by_name(
    *(decoder_relations, trees, names, sinks, norms, no_op, removal, maps, matches),
    *(probes, atlas, claims),
) | {
    "relations gum": partial(relations, corpus="gum"),
    "relations ewt": partial(relations, corpus="ewt"),
    "antecedents words": partial(antecedents, candidates="words"),
    "antecedents mentions": partial(antecedents, candidates="mentions"),
}

if __name__ == "__main__":
    measure_or_write("findings", RUNS, MAKERS, measure)
