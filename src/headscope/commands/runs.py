"""`headscope merge`, `table` and `list`: what there is, and what came out."""

from pathlib import Path
from typing import Annotated

import typer

from headscope.commands.shared import Format, FormatOption, show_report, show_run
from headscope.errors import StudyError
from headscope.registry import ANALYSES, CORPORA, FIGURES, MODELS, suggest

__all__ = ["list_names", "merge", "table"]


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs with the same model.")],
    out: Annotated[Path, typer.Option(help="Folder for the merged run.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Add runs of one model over different corpora: the numbers of one run over all of them."""
    from headscope.runs.merge import merge_runs  # torch: only when it is needed

    merged = merge_runs(runs, out)
    show_run(merged, format)
    show_report(merged)


def table(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    name: Annotated[str, typer.Argument(help="The table's name, e.g. position.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print one table of a run."""
    from headscope.report.terminal import print_rows  # only here: tables need pandas
    from headscope.runs.results import load_run

    tables = load_run(run).tables
    if name not in tables:
        known = ", ".join(tables)
        raise StudyError(f"No table {name!r} in {run}.{suggest(name, tables)} Known: {known}.")
    rows = tables[name].astype(object).itertuples(index=False)
    cells = [tuple(_show_cell(cell, format) for cell in row) for row in rows]
    print_rows(tuple(tables[name].columns), cells, format)


def list_names(
    kind: Annotated[str, typer.Argument(help="analyses, corpora, models or figures.")] = "analyses",
    format: FormatOption = Format.TABLE,
) -> None:
    """List the analyses, corpora, models or figures that can be named."""
    registries = {registry.plural: registry for registry in (ANALYSES, CORPORA, MODELS, FIGURES)}
    if kind not in registries:
        known = ", ".join(registries)
        raise StudyError(f"No list of {kind!r}.{suggest(kind, registries)} Known: {known}.")
    rows = [(name, entry.summary) for name, entry in registries[kind].entries().items()]
    if kind == "models":
        rows.append(("FOLDER", "a folder with config.json, tokenizer.json, model.safetensors"))
        rows.append(("NAME", "a model on the Hugging Face hub, e.g. bert-base-uncased"))
        rows.append(("random-init:MODEL", "the embeddings of MODEL, all other weights random"))
    from headscope.report.terminal import print_rows  # only here: tables need rich

    print_rows(("name", "what it is"), rows, format)


def _show_cell(cell: object, format: Format) -> str:
    """A table is for the eye; CSV and JSON keep every digit."""
    is_long = isinstance(cell, float) and format is Format.TABLE
    return f"{cell:.4g}" if is_long else str(cell)
