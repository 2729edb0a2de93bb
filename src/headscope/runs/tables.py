"""The tables of a run, put together from those of its passes."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.contracts import Analysis
from headscope.data.tally import Tally

__all__ = ["labels_of", "summarize_passes"]


def summarize_passes(
    passes: Mapping[str, Mapping[str, Any]],
    analyses: Mapping[str, Analysis],
    tallies: Mapping[str, Mapping[str, Tally]],
) -> dict[str, pd.DataFrame]:
    """Every table of every pass; where several passes gave the same one, with columns that say so:
    `treebank` or `corpus`, and `window`.

    A pass that repeats another gives no tables of its own: it adds to those of the other.
    """
    by_pass = {
        key: _summarize(entry["analyses"], analyses, tallies[key]) for key, entry in passes.items()
    }
    for key, entry in passes.items():
        if entry["repeats"] is not None:
            _add_repeat(by_pass[entry["repeats"]], by_pass[key], entry["variant"])
    parts: dict[str, list[tuple[dict[str, Any], pd.DataFrame]]] = {}
    for key, tables in by_pass.items():
        if passes[key]["repeats"] is None:
            for name, table in tables.items():
                parts.setdefault(name, []).append((labels_of(passes[key]), table))
    return {name: _join(tables) for name, tables in parts.items()}


def labels_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a pass from others that give the same tables."""
    if entry["role"] == "coref":
        return {"corpus": entry["corpus"], "window": entry["window"]}
    return {"treebank": entry["corpus"]}


def _summarize(
    names: list[str], analyses: Mapping[str, Analysis], tallies: Mapping[str, Tally]
) -> dict[str, pd.DataFrame]:
    tables: dict[str, pd.DataFrame] = {}
    for name in names:
        tables.update(analyses[name].summarize(tallies.get(name, Tally())))
    return tables


def _add_repeat(
    tables: dict[str, pd.DataFrame], repeated: Mapping[str, pd.DataFrame], variant: str
) -> None:
    if variant == "null":
        best = tables["dependency-best"]
        tables["dependency-best"] = _add_null(best, repeated["dependency-best"])
    else:
        both = [tables["trees"], repeated["trees"]]
        tables["trees"] = pd.concat(both, ignore_index=True)


def _add_null(best: pd.DataFrame, null: pd.DataFrame) -> pd.DataFrame:
    """The best head of each relation beside the null model's best, both held out."""
    column = null[["relation", "heldout_accuracy"]]
    column = column.rename(columns={"heldout_accuracy": "heldout_null_accuracy"})
    return best.merge(column, on="relation", how="left")


def _join(parts: Sequence[tuple[Mapping[str, Any], pd.DataFrame]]) -> pd.DataFrame:
    """The tables one under the other, each with those of its labels that are not all the same."""
    names = [n for n in parts[0][0] if len({labels[n] for labels, _ in parts}) > 1]
    labelled = [table.assign(**{n: labels[n] for n in names}) for labels, table in parts]
    joined = pd.concat(labelled, ignore_index=True) if len(labelled) > 1 else labelled[0]
    return joined[[*names, *(column for column in joined if column not in names)]]
