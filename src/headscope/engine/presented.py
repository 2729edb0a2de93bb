"""What the engine asks of how analyses are shown: no other module of the engine knows `view`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from headscope.arguments import checked
from headscope.data.table import KIND, Tables, join_kinds, split_kinds
from headscope.errors import StudyError
from headscope.options import require
from headscope.registry import load_presentations
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run, explain_damage, load_run
from headscope.view.behaviour import find_notable_heads
from headscope.view.presentation import DerivedTables, MapOptions, NotableHead
from headscope.view.terminal import doubt_languages

__all__ = [
    "DerivedTables", "NotableHead", "derive_tables", "doubt_languages", "find_notable_heads",
    "redraw_map",
]  # fmt: skip


def derive_tables(tables: Tables, seed: int) -> list[DerivedTables]:
    """What analyses make of the tables of all of them, such as the map of heads."""
    return _derive_all(tables, MapOptions(seed))


def _derive_all(tables: Tables, options: MapOptions) -> list[DerivedTables]:
    makers = [shown.derive for shown in load_presentations().values() if shown.derive]
    return [made for make in makers if (made := _derive(make, tables, options)) is not None]


def _derive(
    make: Callable[[Tables, MapOptions], DerivedTables | None], tables: Tables, options: MapOptions
) -> DerivedTables | None:
    """What is made of the tables; of several kinds of attention for each of them."""
    parts = split_kinds(tables)
    made_of = {kind: make(tables_of_kind, options) for kind, tables_of_kind in parts.items()}
    derived = {kind: made for kind, made in made_of.items() if made is not None}
    if set(derived) <= {""}:
        return derived.get("")
    return DerivedTables(
        join_kinds({kind: made.tables for kind, made in derived.items()}),
        {
            name: {kind: made.facts[name] for kind, made in derived.items() if name in made.facts}
            for name in dict.fromkeys(name for made in derived.values() for name in made.facts)
        },
        tuple(t.with_column(KIND, kind) for kind, made in derived.items() for t in made.shown),
        tuple(f"{kind}: {note}" for kind, made in derived.items() for note in made.notes),
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
    own_seed = run.manifest["options"]["seed"]
    options = MapOptions(own_seed if seed is None else seed, thresholds, n_clusters)
    with explain_damage(run):
        derived = _derive_all(run.tables, options)
    if not derived:
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
