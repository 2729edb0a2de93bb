"""The tables of a run, put together from those of its passes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.contracts import Analysis, CorpusRole
from headscope.data.table import KIND, Tables, empty_tables, join_kinds
from headscope.stats.estimates import as_frames
from headscope.stats.sums import Sums, Tally

__all__ = [
    "CORPUS_COLUMNS", "Frames", "make_tables", "number_layers", "rows_of_pass", "summarize_passes",
    "tally_name",
]  # fmt: skip

CORPUS_COLUMNS = ("treebank", "corpus")
Frames = dict[str, pd.DataFrame]
Summarize = Callable[[Analysis, Tally, Sequence[Tally]], Frames]


def tally_name(kind: str, analysis: str) -> str:
    """The name of the sums of an analysis over one kind of attention."""
    return f"{kind}:{analysis}"


def summarize_passes(
    passes: Mapping[str, Mapping[str, Any]],
    analyses: Mapping[str, Analysis],
    tallies: Mapping[str, Mapping[str, Tally]],
    n_documents: Mapping[str, int],
    summarize: Summarize | None = None,
) -> tuple[Frames, Frames]:
    """Every table of every pass, and those of the untrained models with the column `draw`.

    Tables of an encoder-decoder that was measured whole have a column `attention`. Where
    several passes gave the same table, columns say so: `treebank` or `corpus`, `window`,
    and `cut` where documents were truncated.
    """
    by_pass: dict[str, dict[str, Frames]] = {}
    for key, entry in passes.items():
        draws = [tallies[k] for k, e in passes.items() if e["repeats"] == key and e.get("draw")]
        of_pass = (entry, analyses, tallies[key], draws, summarize or make_tables)
        by_pass[key] = _summarize(*of_pass)
    firsts = {key: entry for key, entry in passes.items() if entry["repeats"] is None}
    trained = _join_passes(firsts, by_pass, n_documents)
    for analysis in analyses.values():  # each says what follows from all its passes together
        if of_analysis := {name: trained[name] for name in analysis.tables if name in trained}:
            trained = trained | dict(analysis.join_corpora(of_analysis))
    drawn = {k: e for k, e in passes.items() if e.get("draw") is not None}
    parts: dict[str, list[pd.DataFrame]] = {}
    for number in sorted({entry["draw"] for entry in drawn.values()}):
        of_draw = {key: entry for key, entry in drawn.items() if entry["draw"] == number}
        for name, table in _join_passes(of_draw, by_pass, n_documents).items():
            parts.setdefault(name, []).append(table.assign(draw=number))
    return trained, {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}


def make_tables(analysis: Analysis, tally: Tally, untrained: Sequence[Tally] = ()) -> Frames:
    """The tables of one tally, beside what untrained models have; empty where it is."""
    if not tally:
        return empty_tables(analysis.tables)
    made = [analysis.summarize(Sums.of(analysis, part)) for part in (tally, *untrained)]
    return as_frames(made[0], made[1:])


def _join_passes(
    passes: Mapping[str, Mapping[str, Any]],
    by_pass: Mapping[str, Mapping[str, Frames]],
    n_documents: Mapping[str, int],
) -> Frames:
    parts: dict[str, list[tuple[Mapping[str, Any], pd.DataFrame]]] = {}
    for key, entry in passes.items():
        for frames in by_pass[key].values():
            for name, table in frames.items():
                counted = table.assign(documents=n_documents[key])
                parts.setdefault(name, []).append((entry, counted))
    return {name: _join(tables) for name, tables in parts.items()}


def _summarize(
    entry: Mapping[str, Any],
    analyses: Mapping[str, Analysis],
    tallies: Mapping[str, Tally],
    untrained: Sequence[Mapping[str, Tally]],
    summarize: Summarize,
) -> dict[str, Frames]:
    """The tables of a pass, by analysis; those of all kinds of attention one under the other."""

    def tables_of(name: str, key: str) -> Frames:
        drawn = [draw[key] for draw in untrained if draw.get(key)]
        return summarize(analyses[name], tallies.get(key, Tally()), drawn)

    kinds: Mapping[str, Sequence[str]] = entry.get(KIND) or {}
    if not kinds:
        return {name: tables_of(name, name) for name in entry["analyses"]}
    by_kind: dict[str, dict[str, Frames]] = {}
    for kind, names in kinds.items():
        for name in names:
            by_kind.setdefault(name, {})[kind] = tables_of(name, tally_name(kind, name))
    return {name: join_kinds(frames) for name, frames in by_kind.items()}


def number_layers(tables: Tables, model: Mapping[str, Any]) -> Frames:
    """The tables with layers by the model's own numbers, as its description in the manifest says.

    Analyses count the layers that they are shown; a hybrid has layers without attention between.
    Of two models, `..._b` is a layer of the second.
    """
    numbered: Frames = {}
    for name, table in tables.items():
        for column in (c for c in map(str, table.columns) if "layer" in c.split("_")):
            of = model.get("second" if column.endswith("_b") else "first", model)
            numbers, layers = of.get("layer_numbers") or [], table[column]
            if numbers != list(range(1, len(numbers) + 1)):
                renumbered = layers.map(dict(enumerate(numbers, start=1)), na_action="ignore")
                table = table.assign(**{column: renumbered.astype(layers.dtype)})
        numbered[name] = table
    return numbered


def rows_of_pass(
    table: pd.DataFrame, corpus: str, window: int | None, cut: str | None
) -> pd.DataFrame:
    """The rows of one pass of a table that holds those of several."""
    labels = {**dict.fromkeys(CORPUS_COLUMNS, corpus), "window": window, "cut": cut}
    for column in labels.keys() & set(table.columns):
        table = table[table[column] == labels[column]]
    return table


def _join(parts: Sequence[tuple[Mapping[str, Any], pd.DataFrame]]) -> pd.DataFrame:
    """The tables one under the other, each with those of its labels that are not all the same."""
    is_treebanks = all(entry["role"] == CorpusRole.TREEBANK for entry, _ in parts)
    labels = {CORPUS_COLUMNS[0 if is_treebanks else 1]: "corpus", "window": "window"}
    names = [n for n, field in labels.items() if len({entry[field] for entry, _ in parts}) > 1]
    if any(entry.get("cut") == "truncate" for entry, _ in parts):
        labels["cut"] = "cut"
        names.append("cut")
    labelled = [table.assign(**{n: entry[labels[n]] for n in names}) for entry, table in parts]
    joined = pd.concat(labelled, ignore_index=True) if len(labelled) > 1 else labelled[0]
    return joined[[*names, *(column for column in joined if column not in names)]]
