"""The tables of a run, put together from those of its passes."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headscope.contracts import Analysis
from headscope.data.tally import Tally

__all__ = ["summarize_passes"]


def summarize_passes(
    passes: Mapping[str, Mapping[str, Any]],
    analyses: Mapping[str, Analysis],
    tallies: Mapping[str, Mapping[str, Tally]],
) -> dict[str, pd.DataFrame]:
    """Every table of every pass; where several corpora gave the same one, with a treebank column.

    A pass that repeats another gives no tables of its own: it adds to those of the other.
    """
    by_pass = {
        key: _summarize(entry["analyses"], analyses, tallies[key]) for key, entry in passes.items()
    }
    for key, entry in passes.items():
        if entry["repeats"] is not None:
            _add_repeat(by_pass[entry["repeats"]], by_pass[key], entry["variant"])
    parts: dict[str, dict[str, pd.DataFrame]] = {}
    for key, tables in by_pass.items():
        if passes[key]["repeats"] is None:
            for name, table in tables.items():
                parts.setdefault(name, {})[passes[key]["corpus"]] = table
    return {name: _join(tables) for name, tables in parts.items()}


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


def _join(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    if len(tables) == 1:
        return next(iter(tables.values()))
    labelled = [table.assign(treebank=name) for name, table in tables.items()]
    joined = pd.concat(labelled, ignore_index=True)
    return joined[["treebank", *(column for column in joined if column != "treebank")]]
