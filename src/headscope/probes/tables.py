"""The results of probes as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headscope.data.attention import head_name
from headscope.probes.attention_only import KINDS, AttentionOnly
from headscope.probes.baselines import HeadCounts, choose_heads
from headscope.probes.controls import ProbeControls
from headscope.probes.geometry import GEOMETRY, Structure, estimate_geometry
from headscope.probes.parts import Part, PartScores
from headscope.probes.scores import (
    SCORES,
    compare_relations,
    compare_uas,
    estimate_relations,
    estimate_scores,
)
from headscope.probes.suite import ProbeResult
from headscope.stats.interval import proportion
from headscope.stats.tests import holm, seed_spread

__all__ = ["TABLES", "Findings", "build_tables"]

DIRECTIONS = ("dependent-to-head", "head-to-dependent")
ROOT_CONSTANT = "root"
SIDES = ("uas", "behind", "ahead")


def _with_ends(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}{end}" for name in names for end in ("", "_low", "_high"))


TABLES: dict[str, tuple[str, ...]] = {
    "probes": (
        "probe", "uas", "low", "high", *_with_ends(*SCORES[1:]),
        "seeds", "seed_spread", "sentences", "parameters", "documents",
    ),
    "probe-differences": (
        "probe", "other", "difference", "low", "high", "p_raw", "p_value",
        "detectable", "documents",
    ),
    "probe-weights": ("probe", "layer", "head", "direction", "weight", "documents"),
    "probe-relations": (
        "relation", "probe", "count", "accuracy", "low", "high", "best_layer",
        "best_head", "best_direction", "best_head_accuracy", "gain", "gain_low", "gain_high",
        "documents",
    ),
    "probe-curve": ("probe", "sentences", "uas", "low", "high", "documents"),
    "probe-selectivity": (
        "probe", "sentences", "uas", "control", "selectivity", "low", "high",
        "documents",
    ),
    "probe-description": (
        "probe", "sentences", "words", "bits", "bits_per_word", "low", "high",
        *_with_ends("compression"), "documents",
    ),
    "probe-parts": (
        "part", "n_heads", "heads", "uas", "low", "high", *_with_ends(*SIDES[1:]),
        "sentences", "documents",
    ),
    "probe-structure": (
        "probe", "hidden", "sentences", "uuas", "uuas_low", "uuas_high",
        *_with_ends(*GEOMETRY[1:]), "documents",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Findings:
    """All that was found by one run of probes."""

    results: Mapping[str, ProbeResult]
    steps: Sequence[tuple[str, ProbeResult]]  # of learning curves
    controls: Mapping[str, ProbeControls]
    fitted: Mapping[str, AttentionOnly]
    counts: tuple[HeadCounts, HeadCounts]  # what heads find in training and test sentences
    shape: tuple[int, int]  # layers and heads of the model
    layer_numbers: Sequence[int]  # of the layers, from 0, as people know them
    parts: Sequence[tuple[Part, PartScores, int]] = ()  # and the sentences learned from
    structures: Sequence[Structure] = ()
    train_documents: int = 0
    test_documents: int = 0


def build_tables(findings: Findings) -> dict[str, pd.DataFrame]:
    """All tables; `documents` are those that were scored, of codes those that were coded."""
    n_layers, n_heads = findings.shape
    tables = {
        "probes": probe_table(findings.results),
        "probe-differences": difference_table(findings.results),
        "probe-weights": weight_table(findings.fitted, n_layers),
        "probe-relations": relation_table(findings.results, *findings.counts, n_heads),
        "probe-curve": curve_table(findings.steps),
        "probe-selectivity": selectivity_table(findings.controls),
        "probe-description": description_table(findings.controls),
        "probe-parts": part_table(findings.parts, findings.layer_numbers, n_heads),
        "probe-structure": structure_table(findings.structures),
    }
    tables["probe-weights"] = tables["probe-weights"].assign(documents=findings.train_documents)
    return {
        name: (table if "documents" in table else table.assign(documents=findings.test_documents))[
            list(TABLES[name])
        ]
        for name, table in tables.items()
    }


def _table(name: str, rows: Sequence[Any]) -> pd.DataFrame:
    columns = [column for column in TABLES[name] if column != "documents"]
    return pd.DataFrame(rows, columns=columns)


def probe_table(results: Mapping[str, ProbeResult]) -> pd.DataFrame:
    """Every probe's scores with their intervals."""
    rows = []
    for name, result in results.items():
        row: dict[str, Any] = {"probe": name}
        for score, (value, low, high) in estimate_scores(result.scores).items():
            prefix = "" if score == "uas" else f"{score}_"
            row |= {score: value, f"{prefix}low": low, f"{prefix}high": high}
        by_seed = result.scores.by_seed[:, SCORES.index("uas")]
        row |= {"seeds": max(len(by_seed), 1), "seed_spread": seed_spread(by_seed)}
        rows.append(row | {"sentences": result.sentences, "parameters": result.parameters})
    return _table("probes", rows)


def difference_table(results: Mapping[str, ProbeResult]) -> pd.DataFrame:
    """The UAS of each probe minus that of each one before it; p-values are corrected for the number
    of pairs."""
    rows = []
    names = list(results)
    for i, name in enumerate(names):
        for other in names[:i]:
            pair = compare_uas(results[name].scores, results[other].scores)
            interval = (pair.value, pair.low, pair.high)
            rows.append((name, other, *interval, pair.p_value, np.nan, pair.detectable))
    table = _table("probe-differences", rows)
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
    table = _table("probe-weights", rows)
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
            names = ("accuracy", "low", "high")
            row |= zip(names, (part[i] for part in accuracy), strict=True)
            if relation in chosen and counts[i]:
                head = chosen[relation]
                by_bucket = on_test[relation][:, head.map, head.direction].astype(float)  # [bucket]
                gain = compare_relations(result.scores, i, by_bucket)
                row |= {"best_layer": head.map // n_heads + 1, "best_head": head.map % n_heads + 1}
                row |= {"best_direction": DIRECTIONS[head.direction]}
                row |= {"best_head_accuracy": by_bucket.sum() / counts[i], "gain": gain.value}
                row |= {"gain_low": gain.low, "gain_high": gain.high}
            rows.append(row)
    table = _table("probe-relations", rows)
    table = table.astype({"best_layer": "Int64", "best_head": "Int64"})
    return table.sort_values("count", ascending=False, kind="stable", ignore_index=True)


def curve_table(results: Sequence[tuple[str, ProbeResult]]) -> pd.DataFrame:
    """UAS by probe and number of training sentences."""
    rows = []
    for name, result in results:
        uas = estimate_scores(result.scores)["uas"]
        rows.append((name, result.sentences, *uas))
    return _table("probe-curve", rows).sort_values(["probe", "sentences"], ignore_index=True)


def selectivity_table(controls: Mapping[str, ProbeControls]) -> pd.DataFrame:
    """UAS, accuracy on the control task, and their difference, paired by bucket."""
    rows = []
    for name, checks in controls.items():
        if checks.control is None:
            continue
        real, control = checks.curve[-1], checks.control
        uas, on_control = (result.scores.shares[SCORES.index("uas")] for result in (real, control))
        gap = compare_uas(real.scores, control.scores)
        interval = (gap.value, gap.low, gap.high)
        rows.append((name, real.sentences, uas, on_control, *interval))
    return _table("probe-selectivity", rows)


def description_table(controls: Mapping[str, ProbeControls]) -> pd.DataFrame:
    """The bits that the heads of the sample take."""
    rows = []
    for name, checks in controls.items():
        code = checks.description
        if code is None:
            continue
        bits = (code.online.sum(), *code.bits_per_word)
        numbers = (code.words.sum(), *bits, *code.compression)
        rows.append((name, checks.curve[-1].sentences, *map(float, numbers)))
    codes = [checks.description for checks in controls.values() if checks.description]
    table = _table("probe-description", rows).astype({"words": "int64"})
    return table.assign(documents=[code.n_documents for code in codes])


def part_table(
    parts: Sequence[tuple[Part, PartScores, int]], layer_numbers: Sequence[int], n_heads: int
) -> pd.DataFrame:
    """The UAS of each part, also of words with their head behind and ahead; heads by name, those of
    a path in the order in which they came."""
    rows = []
    for part, scores, n_sentences in parts:
        names = [head_name(layer_numbers[head // n_heads], head % n_heads) for head in part.heads]
        estimates = proportion(scores.correct, scores.count)
        numbers = [float(estimates[end][side]) for side in range(len(SIDES)) for end in range(3)]
        rows.append((part.name, len(part.heads), " ".join(names), *numbers, n_sentences))
    return _table("probe-parts", rows)


def structure_table(
    structures: Sequence[Structure],
) -> pd.DataFrame:
    """The measures of Hewitt and Manning, with their intervals."""
    rows = []
    for name, layer, n_sentences, by_seed in structures:
        numbers = [number for m in GEOMETRY for number in estimate_geometry(by_seed, m)]
        layer_cell = pd.NA if layer is None else layer
        rows.append((name, layer_cell, n_sentences, *numbers))
    table = _table("probe-structure", rows)
    return table.astype({"hidden": "Int64"})
