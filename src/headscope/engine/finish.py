"""From totals to a finished run: tables, what is derived from them, and the final manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from logging import getLogger
from typing import Any

import pandas as pd

from headscope.contracts import Analysis
from headscope.engine.checkpoint import Checkpoint
from headscope.engine.plug_ins import PlugInError, blame_package, check_tables
from headscope.engine.presented import derive_tables, doubt_languages
from headscope.errors import name_parameters
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run
from headscope.runs.tables import make_tables, number_layers, summarize_passes
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.tally import Tally

__all__ = ["describe_counts", "finish_run"]

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
    derived = derive_tables(tables, manifest["options"]["seed"])
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
    return {
        "counts": {
            key: {
                **asdict(c.result.counts),
                "documents": len(c.result.documents),
                "buckets": len({hash % N_BUCKETS for hash in c.result.documents}),
            }
            for key, c in checkpoints.items()
        },
        "seconds": {
            key: {stage: round(s, 3) for stage, s in c.result.seconds.items()}
            for key, c in checkpoints.items()
        },
    }
