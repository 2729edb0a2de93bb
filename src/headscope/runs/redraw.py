"""The map of a finished run, drawn anew with other thresholds."""

from dataclasses import replace
from pathlib import Path

from headscope.analyses.behaviours import Thresholds
from headscope.runs.layout import lay_out
from headscope.runs.results import Run, RunFolder, load_run

__all__ = ["redraw_layout"]


def redraw_layout(
    folder: str | Path,
    thresholds: Thresholds,
    n_clusters: int | None = None,
    seed: int | None = None,
) -> Run:
    """Make the run's `layout` and `dendrogram` again from its other tables, and write them."""
    run = load_run(folder)
    own_seed = run.manifest["options"]["seed"]
    layout = lay_out(run.tables, thresholds, n_clusters, own_seed if seed is None else seed)
    tables = {**run.tables, **layout.tables}
    own = list(dict.fromkeys([*run.manifest["tables"], *layout.tables]))
    manifest = {**run.manifest, "tables": own, "layout": layout.facts}
    store = RunFolder(Path(folder))
    for name, table in layout.tables.items():
        store.write_table(name, table)
    store.write_manifest(manifest)
    return replace(run, tables=tables, manifest=manifest)
