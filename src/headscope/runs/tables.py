"""The tables of a run, put together from those of its passes."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import pandas as pd

from headscope.contracts import Analysis, CorpusRole
from headscope.data.table import KIND, join_kinds
from headscope.stats.tally import Tally

__all__ = ["CORPUS_COLUMNS", "Repeat", "rows_of_pass", "summarize_passes", "tally_name"]

CORPUS_COLUMNS = ("treebank", "corpus")
Frames = dict[str, pd.DataFrame]


class Repeat(Enum):
    """Why a corpus is read again."""

    UNTRAINED = "untrained"  # the same with the model's weights random
    SECOND_READING = "second"  # by an analysis that knows what the first reading gave


def tally_name(kind: str, analysis: str) -> str:
    """The name of the sums of an analysis over one kind of attention."""
    return f"{kind}:{analysis}"


def summarize_passes(
    passes: Mapping[str, Mapping[str, Any]],
    analyses: Mapping[str, Analysis],
    tallies: Mapping[str, Mapping[str, Tally]],
) -> Frames:
    """Every table of every pass; where several passes gave the same one, with columns that say so:
    `treebank` or `corpus`, and `window`. Tables of an encoder-decoder that was measured whole have
    a column `attention`.

    A pass that repeats another gives no tables of its own: it adds to those of the other.
    """
    by_pass = {key: _summarize(one, analyses, tallies[key]) for key, one in passes.items()}
    for key, entry in passes.items():
        if entry["repeats"] is not None:
            _add_repeat(by_pass[entry["repeats"]], by_pass[key], entry["repeat"], analyses)
    parts: dict[str, list[tuple[Mapping[str, Any], pd.DataFrame]]] = {}
    for key, of_analyses in by_pass.items():
        if passes[key]["repeats"] is None:
            for name, table in (item for frames in of_analyses.values() for item in frames.items()):
                parts.setdefault(name, []).append((passes[key], table))
    return {name: _join(tables) for name, tables in parts.items()}


def _summarize(
    entry: Mapping[str, Any], analyses: Mapping[str, Analysis], tallies: Mapping[str, Tally]
) -> dict[str, Frames]:
    """The tables of a pass, by analysis; those of all kinds of attention one under the other."""
    kinds: Mapping[str, Sequence[str]] = entry.get(KIND) or {}
    if not kinds:
        names: Sequence[str] = entry["analyses"]
        return {n: dict(analyses[n].summarize(tallies.get(n, Tally()))) for n in names}
    found: dict[str, dict[str, Frames]] = {}
    for kind, names in kinds.items():
        for name in names:
            tally = tallies.get(tally_name(kind, name), Tally())
            found.setdefault(name, {})[kind] = dict(analyses[name].summarize(tally))
    return {name: join_kinds(by_kind) for name, by_kind in found.items()}


def rows_of_pass(table: pd.DataFrame, corpus: str, window: int | None) -> pd.DataFrame:
    """The rows of one pass of a table that holds those of several."""
    labels = {**dict.fromkeys(CORPUS_COLUMNS, corpus), "window": window}
    for column in labels.keys() & set(table.columns):
        table = table[table[column] == labels[column]]
    return table


def _add_repeat(
    tables: dict[str, Frames],
    repeated: Mapping[str, Frames],
    repeat: str,
    analyses: Mapping[str, Analysis],
) -> None:
    """Let each analysis put what its repetition gave beside what it gave first."""
    for name, frames in repeated.items():
        analysis: Any = analyses[name]
        is_untrained = Repeat(repeat) is Repeat.UNTRAINED
        add = analysis.add_untrained if is_untrained else analysis.add_repeat
        tables[name] = dict(add(tables[name], frames))


def _join(parts: Sequence[tuple[Mapping[str, Any], pd.DataFrame]]) -> pd.DataFrame:
    """The tables one under the other, each with those of its labels that are not all the same."""
    is_treebanks = all(entry["role"] == CorpusRole.TREEBANK for entry, _ in parts)
    labels = {CORPUS_COLUMNS[0 if is_treebanks else 1]: "corpus", "window": "window"}
    names = [n for n, field in labels.items() if len({entry[field] for entry, _ in parts}) > 1]
    labelled = [table.assign(**{n: entry[labels[n]] for n in names}) for entry, table in parts]
    joined = pd.concat(labelled, ignore_index=True) if len(labelled) > 1 else labelled[0]
    return joined[[*names, *(column for column in joined if column not in names)]]
