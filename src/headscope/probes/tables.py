"""The results of probes as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headscope.probes.attention_only import KINDS, AttentionOnly
from headscope.probes.baselines import HeadCounts, choose_heads
from headscope.probes.scores import (
    SCORES,
    ProbeScores,
    compare_uas,
    estimate_relations,
    estimate_scores,
)
from headscope.stats.tests import holm

__all__ = ["TABLES", "ProbeResult", "build_tables"]

DIRECTIONS = ("dependent-to-head", "head-to-dependent")
ROOT_CONSTANT = "root"

TABLES: dict[str, tuple[str, ...]] = {
    "probes": (
        "probe", "uas", "low", "high",
        *(f"{score}{part}" for score in SCORES[1:] for part in ("", "_low", "_high")),
        "sentences", "parameters",
    ),
    "probe-differences": (
        "probe", "other", "difference", "low", "high", "p_raw", "p_value", "detectable",
        "documents",
    ),
    "probe-weights": ("probe", "layer", "head", "direction", "weight"),
    "probe-relations": (
        "relation", "probe", "count", "accuracy", "low", "high",
        "best_layer", "best_head", "best_direction", "best_head_accuracy", "gain",
    ),
    "probe-curve": ("probe", "sentences", "uas", "low", "high"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """The scores of a probe, and the sentences and parameters that it learned."""

    scores: ProbeScores
    sentences: int
    parameters: int


def build_tables(
    results: Mapping[str, ProbeResult],
    pairs: Sequence[tuple[str, str]],
    steps: Sequence[tuple[str, ProbeResult]],
    fitted: Mapping[str, AttentionOnly],
    counts: tuple[HeadCounts, HeadCounts],
    shape: tuple[int, int],
) -> dict[str, pd.DataFrame]:
    """All tables: of the results, the pairs of probes to compare, the steps of learning curves, the
    fitted attention-only probes, and what heads find in training and test sentences; `shape` is
    that of the model, layers and heads."""
    n_layers, n_heads = shape
    return {
        "probes": probe_table(results),
        "probe-differences": difference_table(results, pairs),
        "probe-weights": weight_table(fitted, n_layers),
        "probe-relations": relation_table(results, *counts, n_heads),
        "probe-curve": curve_table(steps),
    }


def probe_table(results: Mapping[str, ProbeResult]) -> pd.DataFrame:
    """Every probe's scores with their intervals."""
    rows = []
    for name, result in results.items():
        row: dict[str, Any] = {"probe": name}
        estimates = estimate_scores(result.scores)
        for score, (value, low, high) in estimates.items():
            prefix = "" if score == "uas" else f"{score}_"
            row |= {score: value, f"{prefix}low": low, f"{prefix}high": high}
        rows.append(row | {"sentences": result.sentences, "parameters": result.parameters})
    return pd.DataFrame(rows, columns=list(TABLES["probes"]))


def difference_table(
    results: Mapping[str, ProbeResult], pairs: Sequence[tuple[str, str]]
) -> pd.DataFrame:
    """The UAS of a probe minus that of another; p-values are corrected for the number of pairs."""
    rows = []
    for name, other in pairs:
        scores = results[name].scores
        value, low, high, _, p_raw, detectable = compare_uas(scores, results[other].scores)
        numbers = (value, low, high, p_raw, np.nan, detectable, scores.n_documents)
        rows.append((name, other, *numbers))
    table = pd.DataFrame(rows, columns=list(TABLES["probe-differences"]))
    return table.assign(p_value=holm(table["p_raw"].to_numpy(dtype=float)))


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
    on_train: HeadCounts,
    on_test: HeadCounts,
    n_heads: int,
) -> pd.DataFrame:
    """Each relation by each probe beside its best head, which was chosen on training sentences."""
    chosen, rows = choose_heads(on_train), []
    for name, result in results.items():
        accuracy = estimate_relations(result.scores)
        counts = result.scores.relation_count.sum(axis=0)
        for i, relation in enumerate(result.scores.relations):
            row: dict[str, Any] = {"relation": relation, "probe": name, "count": int(counts[i])}
            row |= zip(("accuracy", "low", "high"), (part[i] for part in accuracy), strict=True)
            if relation in chosen and counts[i]:
                head = chosen[relation]
                of_head = on_test[relation][head.map, head.direction] / counts[i]
                row |= {"best_layer": head.map // n_heads + 1, "best_head": head.map % n_heads + 1}
                row |= {"best_direction": DIRECTIONS[head.direction], "best_head_accuracy": of_head}
                row |= {"gain": row["accuracy"] - of_head}
            rows.append(row)
    table = pd.DataFrame(rows, columns=list(TABLES["probe-relations"]))
    table = table.astype({"best_layer": "Int64", "best_head": "Int64"})
    return table.sort_values("count", ascending=False, kind="stable", ignore_index=True)


def curve_table(results: Sequence[tuple[str, ProbeResult]]) -> pd.DataFrame:
    """UAS by probe and number of training sentences."""
    rows = []
    for name, result in results:
        uas = estimate_scores(result.scores)["uas"]
        rows.append((name, result.sentences, uas.value, uas.low, uas.high))
    table = pd.DataFrame(rows, columns=list(TABLES["probe-curve"]))
    return table.sort_values(["probe", "sentences"], ignore_index=True)
