"""What the probes came to, as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headscope.probes.attention_only import KINDS, AttentionOnly
from headscope.probes.scores import SCORES, Found, estimate_relations, estimate_scores
from headscope.probes.single_head import Counts, choose_heads

__all__ = [
    "TABLES", "Bootstrap", "ProbeResult", "curve_table", "probe_table", "relation_table",
    "weight_table",
]  # fmt: skip

DIRECTIONS = ("dependent-to-head", "head-to-dependent")
ROOT_CONSTANT = "root"

TABLES: dict[str, tuple[str, ...]] = {
    "probes": (
        "probe", "uas", "low", "high",
        *(f"{score}{part}" for score in SCORES[1:] for part in ("", "_low", "_high")),
        "sentences", "parameters",
    ),
    "probe-weights": ("probe", "layer", "head", "direction", "weight"),
    "probe-relations": (
        "relation", "probe", "count", "accuracy", "low", "high",
        "best_layer", "best_head", "best_direction", "best_head_accuracy", "gain",
    ),
    "probe-curve": ("probe", "sentences", "uas", "low", "high"),
}  # fmt: skip


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn."""

    seed: int = 0
    replicates: int = 200


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """What a probe found, after how many training sentences, with how many parameters."""

    found: Found
    sentences: int
    parameters: int


def probe_table(results: Mapping[str, ProbeResult], bootstrap: Bootstrap) -> pd.DataFrame:
    """Every probe's scores with their intervals."""
    rows = []
    for name, result in results.items():
        row: dict[str, Any] = {"probe": name}
        scores = estimate_scores(result.found, bootstrap.seed, bootstrap.replicates)
        for score, (value, low, high) in scores.items():
            prefix = "" if score == "uas" else f"{score}_"
            row |= {score: value, f"{prefix}low": low, f"{prefix}high": high}
        rows.append(row | {"sentences": result.sentences, "parameters": result.parameters})
    return pd.DataFrame(rows, columns=list(TABLES["probes"]))


def weight_table(probes: Mapping[str, AttentionOnly], n_layers: int) -> pd.DataFrame:
    """The weights of attention-only probes, by head and direction; ROOT's constant without head."""
    rows: list[tuple[Any, ...]] = []
    for name, probe in probes.items():
        by_head = probe.weights.reshape(len(KINDS), n_layers, -1)  # [kind, layer, head]
        rows += [
            (name, layer + 1, head + 1, KINDS[kind], weight)
            for (kind, layer, head), weight in np.ndenumerate(by_head)
        ]
        rows.append((name, pd.NA, pd.NA, ROOT_CONSTANT, probe.root))
    table = pd.DataFrame(rows, columns=list(TABLES["probe-weights"]))
    return table.astype({"layer": "Int64", "head": "Int64", "weight": "float64"})


def relation_table(
    results: Mapping[str, ProbeResult],
    on_train: Counts,
    on_test: Counts,
    n_heads: int,
    bootstrap: Bootstrap,
) -> pd.DataFrame:
    """Each relation by each probe beside its best head, which was chosen on training sentences."""
    chosen, rows = choose_heads(on_train), []
    for name, result in results.items():
        found = result.found
        accuracy = estimate_relations(found, bootstrap.seed, bootstrap.replicates)
        counts = found.relation_count.sum(axis=0)
        for place, relation in enumerate(found.relations):
            row: dict[str, Any] = {"relation": relation, "probe": name, "count": int(counts[place])}
            row |= {"accuracy": accuracy.value[place]}
            row |= {"low": accuracy.low[place], "high": accuracy.high[place]}
            if relation in chosen and counts[place]:
                head = chosen[relation]
                of_head = on_test[relation][head.map, head.direction] / counts[place]
                row |= {"best_layer": head.map // n_heads + 1, "best_head": head.map % n_heads + 1}
                row |= {"best_direction": DIRECTIONS[head.direction], "best_head_accuracy": of_head}
                row |= {"gain": row["accuracy"] - of_head}
            rows.append(row)
    table = pd.DataFrame(rows, columns=list(TABLES["probe-relations"]))
    table = table.astype({"best_layer": "Int64", "best_head": "Int64"})
    return table.sort_values("count", ascending=False, kind="stable", ignore_index=True)


def curve_table(results: Sequence[tuple[str, ProbeResult]], bootstrap: Bootstrap) -> pd.DataFrame:
    """UAS by probe and number of training sentences."""
    rows = []
    for name, result in results:
        uas = estimate_scores(result.found, bootstrap.seed, bootstrap.replicates)["uas"]
        rows.append((name, result.sentences, uas.value, uas.low, uas.high))
    table = pd.DataFrame(rows, columns=list(TABLES["probe-curve"]))
    return table.sort_values(["probe", "sentences"], ignore_index=True)
