"""Tables of every kind that figures draw, made up for any number of layers and heads."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage

RELATIONS = ("all", "all (no punct or root)", "det", "obj", "nsubj")


def cross(**values: object) -> pd.DataFrame:
    """A row for every combination."""
    return pd.DataFrame(list(product(*values.values())), columns=list(values))


def make_tables(
    n_layers: int = 3,
    n_heads: int = 5,
    label: str = "mine",
    has_intervals: bool = True,
    treebanks: Sequence[str] = (),
) -> dict[str, pd.DataFrame]:
    """All tables of a run; `label` is a token class, a relation and a behaviour.

    Relations are those of one treebank without a name, or of several.
    """
    draw = np.random.default_rng(0)
    heads = {"layer": range(1, n_layers + 1), "head": range(1, n_heads + 1)}

    def measured(table: pd.DataFrame, value: str) -> pd.DataFrame:
        values = draw.uniform(0.1, 0.9, len(table))
        reach = 0.05 if has_intervals else np.nan
        return table.assign(**{value: values, "low": values - reach, "high": values + reach})

    targets = ["cls", "sep", "first", label, "punctuation", "other"]
    tables = {
        "position": measured(cross(**heads, target=["previous", "self", "next"]), "weight"),
        "special-tokens": measured(
            cross(**heads, source=["all", "sep", "other"], target=targets), "weight"
        ),
        "entropy": measured(cross(**heads, rows=["all", "cls"]), "nats").assign(uniform=4.8),
        "gradient": measured(cross(**heads, target=targets), "gradient"),
        "ablation": measured(
            cross(**heads, mode=["zero", "mean", "sink"], effect=["loss"]), "change"
        ).assign(base=2.0),
    }
    tables |= _relations(heads, measured, label, treebanks) | _probes(heads, measured)
    tables |= _structures(n_layers, n_heads, measured)
    tables |= _distances(n_layers, n_heads, draw, label)
    tables |= {"head-matches": _matches(heads, measured, n_layers, n_heads)}
    tables |= {
        "max-weight": measured(cross(**heads), "weight"),
        "monotonicity": measured(cross(**heads), "correlation"),
        "word-alignment": measured(cross(**heads, step=["output", "input"]), "aer"),
    }
    patterns = ["induction", "duplicate", "previous"]
    tables |= {
        "induction": measured(cross(**heads, pattern=patterns), "weight").assign(chance=0.01),
        "induction-text": measured(cross(**heads), "weight").assign(chance=0.01),
        "copying": measured(cross(**heads, effect=["copies", "suppresses"]), "top_10"),
        "retrieval": measured(cross(**heads), "copied"),
        "importance": measured(cross(**heads), "importance"),
        "sinks": measured(cross(**heads), "first").assign(is_sink=0.5, even=0.04),
        "reach": measured(cross(**heads), "distance").assign(beyond=0.2, sliding_window=np.nan),
    }
    aligned = {"links": 40, "precision": 0.5, "recall": 0.4, "diagonal_aer": 0.6}
    return tables | {"word-alignment": tables["word-alignment"].assign(**aligned)}


def _relations(heads, measured, label, treebanks):
    directions = ["dependent-to-head", "head-to-dependent"]
    relations = [*RELATIONS, label]
    counts = {name: 500 - 60 * place for place, name in enumerate(relations)}
    every = measured(cross(relation=relations, direction=directions, **heads), "accuracy")
    every = every.assign(count=every["relation"].map(counts))
    best = every.sort_values("accuracy").groupby("relation", sort=False).tail(1)
    ends = {"heldout_low": 0.4, "heldout_high": 0.6}
    best = best.assign(heldout_accuracy=0.5, **ends, offset=-1, baseline_accuracy=0.4)
    types = ["all", "pronoun", "proper", "nominal"]
    found = measured(cross(window=[128, 512], mention_type=types, candidates=["mentions"]), "a")
    found = found.rename(columns={"a": "accuracy"}).assign(
        count=70, layer=1, head=2, direction="mention-to-antecedent", heldout_accuracy=0.5, **ends
    )
    found = found.assign(nearest=0.2, head_match=0.3, rule_based=0.6)
    if treebanks:
        every, best = (
            pd.concat([table.assign(treebank=name) for name in treebanks], ignore_index=True)
            for table in (every, best)
        )
    return {"dependency": every, "dependency-best": best, "coreference-best": found}


def _probes(heads, measured):
    names = ["right-branching", "attention-only"]
    scores = measured(cross(probe=names), "uas").assign(
        mst_uas=0.5, uuas=0.6, sentences=100, parameters=7
    )
    directions = ["dependent-to-head", "head-to-dependent", "opening", "closing"]
    weights = measured(cross(probe=names[1:], **heads, direction=directions), "weight")
    constant = pd.DataFrame({"probe": names[1:], "direction": "root", "weight": 1.0})
    weights = pd.concat([weights[["probe", "layer", "head", "direction", "weight"]], constant])
    curve = measured(cross(probe=names[1:], sentences=[20, 80, 320]), "uas")
    return {"probes": scores, "probe-weights": weights, "probe-curve": curve}


def _structures(n_layers, n_heads, measured):
    """Probes of some heads alone, and of the hidden states of each layer."""
    names = [
        f"{layer}-{head}" for layer in range(1, n_layers + 1) for head in range(1, n_heads + 1)
    ]
    steps = [n for n in (1, 2, 4) if n <= len(names)]
    rows = [(path, n) for path in ("greedy", "L1") for n in steps]
    rows += [("layer 1", n_heads), ("all heads", len(names))]
    parts = measured(pd.DataFrame(rows, columns=["part", "n_heads"]), "uas")
    parts = parts.assign(heads=[" ".join(names[:n]) for n in parts["n_heads"]], sentences=100)
    rows = [("each layer", layer) for layer in range(n_layers + 1)]
    rows += [("structural-probe", n_layers), ("chain", pd.NA)]
    trees = pd.DataFrame(rows, columns=["probe", "hidden"]).astype({"hidden": "Int64"})
    for measure in ("uuas", "distance_spearman", "root_accuracy", "depth_spearman"):
        ends = {"low": f"{measure}_low", "high": f"{measure}_high"}
        trees = measured(trees, measure).rename(columns=ends)
    return {"probe-parts": parts, "probe-structure": trees.assign(sentences=100)}


def _matches(heads, measured, n_layers, n_heads):
    """The heads of two models: each matches the one at the opposite place."""
    table = cross(**heads).rename(columns={"layer": "layer_a", "head": "head_a"})
    opposite = {
        "layer_b": n_layers + 1 - table["layer_a"],
        "head_b": n_heads + 1 - table["head_a"],
    }
    table = measured(table.assign(**opposite), "divergence")
    return table.assign(support=0.9, mean_divergence=0.6, is_mutual=True)


def _distances(n_layers, n_heads, draw, label):
    heads = np.array(list(product(range(1, n_layers + 1), range(1, n_heads + 1))))
    n = len(heads)
    first, second = np.triu_indices(n, 1)
    divergence = draw.uniform(0.01, 0.69, len(first))
    distance = pd.DataFrame(
        np.column_stack([heads[first], heads[second]]),
        columns=["layer_a", "head_a", "layer_b", "head_b"],
    ).assign(divergence=divergence, low=divergence, high=divergence)
    tree = linkage(divergence, "average")
    place = np.empty(n, dtype=int)
    place[leaves_list(tree)] = np.arange(1, n + 1)
    behaviour = [("other", "previous token", label, "everything, broadly")[i % 4] for i in range(n)]
    layout = pd.DataFrame(heads, columns=["layer", "head"]).assign(
        x=draw.normal(size=n), y=draw.normal(size=n), cluster=1, place=place, stress=0.1
    )
    layout = layout.assign(behaviour=behaviour, behaviours=behaviour)
    merges = pd.DataFrame(tree, columns=["left", "right", "divergence", "heads"])
    merges = merges.astype({"left": int, "right": int, "heads": int})
    merges = merges.assign(merge=np.arange(n + 1, 2 * n), left=merges["left"] + 1)
    merges = merges.assign(right=merges["right"] + 1)
    return {"distance": distance, "layout": layout, "dendrogram": merges}
