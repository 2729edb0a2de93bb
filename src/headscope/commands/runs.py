"""What is done with finished runs: report, card, table, merge, layout; two models; and lists."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands.shared import (
    FormatOption,
    Resume,
    RunFolderArgument,
    name_folder,
    show_report,
    show_run,
)
from headscope.errors import StudyError, suggest
from headscope.registry import ANALYSES, CORPORA, MODELS, PROBES
from headscope.view.table import Format, TextTable, print_table

__all__ = ["card", "distance", "layout", "list_names", "merge", "report", "table"]


def report(
    run: RunFolderArgument,
    figures: Annotated[
        str | None,
        typer.Option(help="Also save every figure, as svg, png or pdf; several with commas."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to put the page instead of RUN/report.html.")
    ] = None,
) -> None:
    """Make report.html again from a run's tables, without the model, and figures as files."""
    from headscope.runs.run import load_run  # altair: only when it is needed
    from headscope.view.figure import save_figures

    done = load_run(run, skip_missing=True)
    formats = [format.strip() for format in figures.split(",")] if figures is not None else []
    saved = save_figures(done.tables, run / "figures", formats) if formats else []
    typer.echo(done.report(out))
    if saved:
        typer.echo(f"Figures: {len(saved)} files in {run / 'figures'}", err=True)


def card(
    run: RunFolderArgument,
    head: Annotated[str, typer.Argument(help="Layer and head, counted from 1, e.g. 8-10.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print all that a run knows about one head."""
    from headscope.runs.run import load_run  # pandas: only when it is needed

    found = load_run(run).card(head)
    rows = [("gist", found.gist), *((fact.topic, fact.text) for fact in found.facts)]
    topic = found.title.lower() if format is Format.TABLE else "topic"
    print_table(TextTable((topic, "text"), tuple(rows)), format)


def table(
    run: RunFolderArgument,
    name: Annotated[str, typer.Argument(help="The table's name, e.g. position.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print one table of a run."""
    from headscope.runs.run import load_run  # pandas: only when it is needed
    from headscope.view.terminal import print_frame

    print_frame(load_run(run).tables[name], format)


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs with the same model.")],
    out: Annotated[Path, typer.Option(help="Folder for the merged run.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Add runs of one model over different corpora, or the parts of one run (--shard)."""
    from headscope.engine.merge import merge_runs  # torch: only when it is needed

    merged = merge_runs(runs, out)
    show_run(merged, format)
    show_report(merged)


def layout(
    run: RunFolderArgument,
    clusters: Annotated[
        int | None, typer.Option(help="How many clusters.", show_default="by silhouette")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random starts.", show_default="the run's")
    ] = None,
    format: FormatOption = Format.TABLE,
    **thresholds: Any,
) -> None:
    """Draw the map of heads of a run anew: places, clusters and behaviours."""
    from headscope.engine.finish import redraw_map  # pandas: only when it is needed
    from headscope.view.terminal import print_frame

    drawn, derived = redraw_map(run, thresholds, clusters, seed)
    for part in derived:
        for shown in part.shown if format is Format.TABLE else ():
            print_table(shown)
        if format is not Format.TABLE:
            print_frame(next(iter(part.tables.values())), format)
        for note in part.notes:
            typer.echo(note, err=True)
        typer.echo(f"Tables: {run}/tables ({' and '.join(part.tables)} written anew)", err=True)
    show_report(drawn)


def distance(
    models: Annotated[
        list[str], typer.Argument(help="Hub names, local folders, or 'demo': two models or more.")
    ],
    text: Annotated[
        str, typer.Option(help=".txt, .jsonl or .conllu file (also .gz), a folder, or 'starter'.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/A--B")
    ] = None,
    revision_a: Annotated[
        str | None, typer.Option(help="Revision of the first model on the hub.")
    ] = None,
    revision_b: Annotated[
        str | None, typer.Option(help="Revision of the second model on the hub.")
    ] = None,
    resume: Resume = False,
    format: FormatOption = Format.TABLE,
    **options: Any,
) -> None:
    """Match the heads of two models, one to one, by how alike they attend to the text.

    Of more models, every two are matched. Models with different tokenizers are compared by words.
    """
    from headscope.engine.match import match_all, match_models  # torch: only when it is needed

    names = [name_folder(name) for name in models]
    if len(models) < 2:
        raise StudyError("One model was given. Expected two or more: headscope distance A B.")
    folder = out or Path("runs") / "--".join(names)
    options = {**options, "text": text, "resume": resume}
    if len(models) == 2:
        revisions = {"revision_a": revision_a, "revision_b": revision_b}
        run = match_models(*models, out=folder, **revisions, **options)
        show_run(run, format)
        show_report(run)
        return
    if revision_a or revision_b:
        raise StudyError(
            "--revision-a and --revision-b are for two models. Expected --revision for all, or two "
            "models; leave them out."
        )
    for pair, run in match_all(models, names, folder, **options).items():
        typer.echo(f"\n{' and '.join(pair)}", err=format is not Format.TABLE)
        show_run(run, format)
        show_report(run)


def list_names(
    kind: Annotated[
        str, typer.Argument(help="analyses, probes, corpora, models or figures.")
    ] = "analyses",
    format: FormatOption = Format.TABLE,
) -> None:
    """List the analyses, probes, corpora, models or figures that can be named."""
    registries = {r.plural: r for r in (ANALYSES, PROBES, CORPORA, MODELS)}
    known = [*registries, "figures"]
    if kind not in known:
        raise StudyError(f"No list of {kind!r}.{suggest(kind, known)} Known: {', '.join(known)}.")
    if kind == "figures":
        from headscope.view.figure import list_figures  # altair: only when it is needed

        rows = [
            (f.name, f.title + f" ({f.paper})" * bool(f.paper)) for f in list_figures().values()
        ]
    else:
        rows = [(name, entry.summary) for name, entry in registries[kind].entries().items()]
    if kind == MODELS.plural:
        rows.append(("FOLDER", "a folder with config.json, tokenizer.json, model.safetensors"))
        rows.append(("NAME", "a model on the Hugging Face hub, e.g. bert-base-uncased"))
        rows.append(("random-init:MODEL", "the embeddings of MODEL, all other weights random"))
    print_table(TextTable(("name", "what it is"), tuple(rows)), format)
