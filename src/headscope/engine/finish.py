"""From totals to a finished run: tables, what is derived from them, and the final manifest.

The one module of the engine that knows `view`: how analyses are shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.arguments import checked
from headscope.contracts import Analysis
from headscope.data.table import KIND, Tables, join_kinds, split_kinds
from headscope.engine.checkpoint import Checkpoint
from headscope.engine.resolve import PlugInError, blame_package, check_tables
from headscope.errors import StudyError, name_parameters
from headscope.options import require
from headscope.registry import load_presentations
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run, explain_damage, load_run
from headscope.runs.tables import make_tables, number_layers, summarize_passes
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.sums import Tally
from headscope.view.behaviour import find_notable_heads
from headscope.view.presentation import DerivedTables, MapOptions, NotableHead
from headscope.view.sheet import choose_sheet_heads
from headscope.view.terminal import doubt_languages

__all__ = [
    "NotableHead", "choose_sheet_heads", "describe_counts", "find_notable_heads", "finish_run",
    "redraw_map",
]  # fmt: skip

log = getLogger("headscope")


def finish_run(
    folder: RunFolder | None,
    manifest: Mapping[str, Any],
    analyses: Mapping[str, Analysis],
    checkpoints: Mapping[str, Checkpoint],
    failed: Sequence[Mapping[str, Any]] = (),
) -> Run:
    """Turn the totals of all passes into tables, and write them with the final manifest.

    Shards that `failed` make the run a partial one.
    """
    tallies = {key: checkpoint.result.tallies for key, checkpoint in checkpoints.items()}
    n_documents = {key: len(checkpoint.result.documents) for key, checkpoint in checkpoints.items()}
    failures: dict[str, str] = {}  # of plug-ins, by analysis
    summarize = partial(_summarize, failures)
    made = summarize_passes(manifest["passes"], analyses, tallies, n_documents, summarize)
    tables, untrained = (number_layers(part, manifest["model"]) for part in made)
    derived = _derive_all(tables, MapOptions(manifest["options"]["seed"]))
    tables |= {name: table for part in derived for name, table in part.tables.items()}
    final = {
        **manifest,
        "derived": {name: facts for part in derived for name, facts in part.facts.items()},
        "status": "partial" if failed or failures else "complete",
        **({"failed": list(failed)} if failed else {}),
        **({"failed_analyses": failures} if failures else {}),
        "tables": list(tables),
        "untrained_tables": list(untrained),
        **describe_counts(checkpoints),
    }
    if folder is not None:
        folder.finish(tables, final, untrained)
    for doubt in doubt_languages(final):
        log.warning("%s", doubt)
    return Run(tables, final, folder.path if folder else None, untrained=untrained)


def _summarize(
    failures: dict[str, str], analysis: Analysis, tally: Tally, untrained: Sequence[Tally]
) -> dict[str, pd.DataFrame]:
    """The tables of an analysis; none where a plug-in fails, which is told and noted."""
    try:
        with blame_package(analysis, "summarize"):
            return check_tables(analysis, make_tables(analysis, tally, untrained))
    except PlugInError as error:
        if analysis.name not in failures:
            log.warning("%s", name_parameters(str(error)))
        failures[analysis.name] = str(error)
        return {}


def describe_counts(checkpoints: Mapping[str, Checkpoint]) -> dict[str, Any]:
    """What became of the examples of each pass, and the seconds that it took."""
    results = {key: checkpoint.result for key, checkpoint in checkpoints.items()}
    return {
        "counts": {
            key: {
                **asdict(result.counts),
                "documents": len(result.documents),
                "buckets": len({number % N_BUCKETS for number in result.documents}),
            }
            for key, result in results.items()
        },
        "seconds": {
            key: {stage: round(seconds, 3) for stage, seconds in result.seconds.items()}
            for key, result in results.items()
        },
    }


def _derive_all(tables: Tables, options: MapOptions) -> list[DerivedTables]:
    """What analyses make of the tables of all of them, such as the map of heads."""
    makers = [shown.derive for shown in load_presentations().values() if shown.derive]
    return [derived for make in makers if (derived := _derive(make, tables, options)) is not None]


def _derive(
    make: Callable[[Tables, MapOptions], DerivedTables | None], tables: Tables, options: MapOptions
) -> DerivedTables | None:
    """What is made of the tables; of several kinds of attention for each of them."""
    made = {kind: make(part, options) for kind, part in split_kinds(tables).items()}
    by_kind = {kind: derived for kind, derived in made.items() if derived is not None}
    if set(by_kind) <= {""}:
        return by_kind.get("")
    return DerivedTables(
        join_kinds({kind: derived.tables for kind, derived in by_kind.items()}),
        {
            name: {kind: d.facts[name] for kind, d in by_kind.items() if name in d.facts}
            for name in dict.fromkeys(name for d in by_kind.values() for name in d.facts)
        },
        tuple(t.with_column(KIND, kind) for kind, d in by_kind.items() for t in d.shown),
        tuple(f"{kind}: {note}" for kind, d in by_kind.items() for note in d.notes),
    )


@checked
def redraw_map(
    folder: str | Path,
    thresholds: Mapping[str, float],
    n_clusters: int | None = None,
    seed: int | None = None,
) -> tuple[Run, list[DerivedTables]]:
    """Derive the tables of a finished run again with other thresholds, and write them."""
    require(seed is None or seed >= 0, "seed", seed, "0 or more")
    run = load_run(folder)
    seed = run.manifest["options"]["seed"] if seed is None else seed
    with explain_damage(run):
        derived = _derive_all(run.tables, MapOptions(seed, thresholds, n_clusters))
    if not any(part.shown for part in derived):
        raise StudyError(
            f"{folder} has no distances between heads to draw a map from. Expected a run that "
            "measured them; run `headscope analyze` without --only."
        )
    made = {name: table for part in derived for name, table in part.tables.items()}
    names = list(dict.fromkeys([*run.manifest["tables"], *made]))
    facts = {name: fact for part in derived for name, fact in part.facts.items()}
    manifest = {**run.manifest, "tables": names, "derived": facts}
    store = RunFolder(Path(folder))
    with store.locked():
        store.finish(made, manifest)
    return replace(run, tables={**run.tables, **made}, manifest=manifest), derived
