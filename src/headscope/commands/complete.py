"""Names that a shell completes: runs, heads, analyses, figures, tables."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from headscope.files import read_sealed
from headscope.registry import ANALYSES, PROBES

__all__ = [
    "complete_analysis",
    "complete_figure",
    "complete_head",
    "complete_probe",
    "complete_run",
    "complete_table",
]


def complete_run(incomplete: str) -> list[str]:
    """Folders of runs, here and in `runs`."""
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    places = [*folder.glob("*/manifest.json"), *Path("runs").glob("*/manifest.json")]
    return _matching(sorted({str(place.parent) for place in places}), incomplete)


def complete_head(context: typer.Context, incomplete: str) -> list[str]:
    """The heads of the run that stands before."""
    model = _read_manifest(context).get("model", {})
    layers, heads = model.get("layer_numbers", ()), range(1, model.get("heads", 0) + 1)
    return _matching((f"{layer}-{head}" for layer in layers for head in heads), incomplete)


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """The tables of the run that stands before."""
    return _matching(_read_manifest(context).get("tables", ()), incomplete)


def complete_analysis(incomplete: str) -> list[str]:
    """All analyses, after the last comma."""
    return list(_after_comma(ANALYSES.entries(), incomplete))


def complete_probe(incomplete: str) -> list[str]:
    """All probes, after the last comma."""
    return list(_after_comma(PROBES.entries(), incomplete))


def complete_figure(incomplete: str) -> list[str]:
    """All figures."""
    from headscope.view.figure import list_figures  # altair: only when it is needed

    return _matching(list_figures(), incomplete)


def _after_comma(names: Iterable[str], incomplete: str) -> Iterator[str]:
    before, comma, last = incomplete.rpartition(",")
    for name in _matching(names, last):
        yield before + comma + name


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _read_manifest(context: typer.Context) -> dict[str, Any]:
    """What the run that was typed says of itself; nothing where there is none."""
    try:
        return read_sealed(Path(str(context.params.get("run", ""))) / "manifest.json")
    except (OSError, ValueError):
        return {}
