"""What is done with finished runs; two models; and lists of what can be named."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.shared import (
    FormatOption,
    Resume,
    RunFolderArgument,
    choose_folder,
    complete_figure,
    complete_head,
    complete_table,
    name_folder,
    show_report,
    show_run,
)
from headscope.errors import StudyError, say_count, suggest
from headscope.registry import ANALYSES, CORPORA, MODELS, PROBES
from headscope.view.table import Format, TextTable, print_table, terminal_width, wrap_text

LINE = 100  # characters of a sentence, where there is no terminal
of_figure = partial(typer.Option, rich_help_panel="One figure")
REGISTRIES = {registry.plural: registry for registry in (ANALYSES, PROBES, CORPORA, MODELS)}
KINDS = (*REGISTRIES, "tables", "figures", "claims")

__all__ = [
    "atlas", "card", "compare", "distance", "layout", "list_names", "merge", "report", "table",
]  # fmt: skip


def report(
    run: RunFolderArgument,
    figures: Annotated[
        str | None,
        typer.Option(help="Also save every figure as svg, png or pdf; or several: svg,pdf."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the page or figure here instead of in RUN.")
    ] = None,
    figure: Annotated[
        str | None,
        of_figure(help="Save this figure instead of the page.", autocompletion=complete_figure),
    ] = None,
    format: Annotated[str, of_figure(help="svg, png or pdf.")] = "svg",
    size: Annotated[str | None, of_figure(help="8x5cm, or a width: 8cm.")] = None,
    font: Annotated[str | None, of_figure(help="An installed font.")] = None,
    palette: Annotated[
        str | None, of_figure(help="A scheme (viridis), or colours: #0072B2,red.")
    ] = None,
    background: Annotated[str | None, of_figure(help="A colour, or transparent.")] = None,
) -> None:
    """Make a run's page again, or save its figures; no model runs."""
    from headscope.runs.run import explain_damage, load_run  # altair: only when it is needed
    from headscope.view.figure import save_figures
    from headscope.view.paper import read_size

    done = load_run(run, skip_missing=True)
    styled = {"size": size, "font": font, "palette": palette, "background": background}
    if figure is None and any(styled.values()):
        given = next(name for name, value in styled.items() if value)
        raise StudyError(f"--{given} was given without --figure. Expected both; add --figure NAME.")
    if figure is not None:
        width, height = read_size(size) if size else (None, None)
        drawn = done.figure(
            figure, width=width, height=height, font=font, palette=palette, background=background
        )
        typer.echo(drawn.save(out or run / "figures" / f"{figure}.{format}"))
        return
    formats = [format.strip() for format in figures.split(",")] if figures is not None else []
    with talk.stage("drawing"), explain_damage(done):
        saved = (
            save_figures(done.tables, run / "figures", formats, done.examples) if formats else []
        )
        page = done.report(out)
    typer.echo(page)
    if saved:
        talk.tell(f"Figures: {say_count(len(saved), 'file')} in {run / 'figures'}")


def card(
    run: RunFolderArgument,
    head: Annotated[
        str,
        typer.Argument(
            help="Layer and head, counted from 1, e.g. 8-10.", autocompletion=complete_head
        ),
    ],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print what a run knows about one head."""
    from headscope.runs.run import load_run  # pandas: only when it is needed

    card = load_run(run).card(head)
    rows = [("summary", card.summary), *((fact.topic, fact.text) for fact in card.facts)]
    topic = card.title.lower() if format is Format.TABLE else "topic"
    print_table(TextTable((topic, "text"), tuple(rows)), format)


def table(
    run: RunFolderArgument,
    name: Annotated[
        str,
        typer.Argument(
            help="The table's name, e.g. position; or table-1, table-2 or table-3 of the paper.",
            autocompletion=complete_table,
        ),
    ],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print one table of a run."""
    from headscope.runs.run import load_run  # pandas: only when it is needed
    from headscope.view.paper_tables import list_paper_tables
    from headscope.view.terminal import print_frame

    done = load_run(run)
    if name in list_paper_tables() and name not in done.tables:
        print(done.paper_table(name, format), end="")
        return
    print_frame(done.tables[name], format)


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs with the same model.")],
    out: Annotated[Path, typer.Option(help="Folder for the merged run.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Join runs of one model on different corpora, or parts (--shard)."""
    with talk.loading():
        from headscope.engine.merge import merge_runs  # torch: only when needed
    with talk.stage("merging runs"):
        merged = merge_runs(runs, out)
    if merged.tables:  # else a second reading is still to come
        show_run(merged, format)
        show_report(merged)


def layout(
    run: RunFolderArgument,
    clusters: Annotated[
        int | None, typer.Option(help="Number of clusters.", show_default="by silhouette")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random starts.", show_default="the run's")
    ] = None,
    format: FormatOption = Format.TABLE,
    **thresholds: Any,
) -> None:
    """Draw the map of a run's heads again, with other thresholds."""
    with talk.loading():
        from headscope.engine.finish import redraw_map  # torch: only when needed
        from headscope.view.terminal import print_frame
    with talk.stage("map of heads"):
        drawn, derived = redraw_map(run, thresholds, clusters, seed)
    for part in derived:
        for shown in part.shown if format is Format.TABLE else ():
            print_table(shown)
        if format is not Format.TABLE:
            print_frame(next(iter(part.tables.values())), format)
        for note in part.notes:
            talk.tell(note)
        talk.tell(f"Tables: {run}/tables ({' and '.join(part.tables)} written again)")
    show_report(drawn)


def compare(
    out: Annotated[Path, typer.Option(help="New folder for tables and compare.html.")],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs. The others are compared with the first."),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(help='Runs of checkpoints, as a pattern in quotes: "runs/step-*".'),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            help="Training steps of the --series runs in the order of their names, e.g. "
            "0,1000,2000.",
            show_default="from the names, or trainer_state.json",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Compare finished runs, with intervals and tests; no model runs."""
    with talk.loading():
        from headscope.comparison.compare import compare as compare_runs  # torch: only when needed
        from headscope.comparison.load import find_runs
        from headscope.comparison.series import compare_series
        from headscope.view.terminal import print_frame

    if bool(runs) == bool(series):
        raise StudyError(
            "Runs were given both ways, or not at all. Expected either folders of runs or --series "
            '"runs/step-*"; give one of them.'
        )
    if series is None and steps is not None:
        raise StudyError(
            "--steps does nothing without --series. Expected both or neither; add "
            "--series, or leave --steps out."
        )
    numbers: list[int] | None = None
    if steps is not None:
        try:
            numbers = [int(part.replace("_", "")) for part in steps.split(",")]
        except ValueError:
            raise StudyError(
                f"--steps {steps} cannot be read. Expected whole numbers separated by commas; "
                "write, for example, 0,1000,2000."
            ) from None
    made: Any
    with talk.stage("comparing runs"):
        if series is not None:
            made = compare_series(find_runs(series), steps=numbers, out=out)
        else:
            made = compare_runs(runs or [], out=out)
    if series is not None:
        print_frame(made.tables["onsets"], format)
    elif format is not Format.TABLE:
        print_frame(made.tables["measures"], format)
    width = terminal_width(sys.stdout, LINE)
    for answer in made.answers:
        line = wrap_text(f"- {answer}", width, indent="  ")
        typer.echo(line, err=format is not Format.TABLE)
    typer.echo(f"Page: {out / 'compare.html'}", err=True)
    typer.echo(f"Tables: {out / 'tables'} (csv and parquet)", err=True)


def atlas(
    folder: Annotated[Path, typer.Argument(help="Folder with folders of runs, at any depth.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder for the site.", show_default="FOLDER/atlas")
    ] = None,
) -> None:
    """Make a static site of many runs, with every report."""
    with talk.loading():
        from headscope.comparison.atlas import write_atlas  # torch: only when needed
    with talk.stage("writing pages"):
        made = write_atlas(folder, out)
    typer.echo(made.index)
    typer.echo(f"{say_count(len(made.runs), 'run')}, {len(made.left_out)} left out.", err=True)


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
    """Match the heads of two models, one to one, by what they attend to.

    With more than two models, every pair is matched. Models with different tokenizers are compared
    by words.
    """
    with talk.loading():
        from headscope.comparison.match import match_all, match_models  # torch: only when needed

    names = [name_folder(name) for name in models]
    if len(models) < 2:
        raise StudyError(
            "One model was given. Expected two or more; name them: headscope distance A B."
        )
    folder = choose_folder(out, Path("runs") / "--".join(names), resume)
    progress = not talk.is_quiet()
    options = {**options, "text": text, "resume": resume, "progress": progress}
    if len(models) == 2:
        options |= {"revision_a": revision_a, "revision_b": revision_b}
        run = match_models(models[0], models[1], out=folder, **options)
        show_run(run, format)
        show_report(run)
        return
    if revision_a or revision_b:
        raise StudyError(
            "--revision-a and --revision-b work for exactly two models. Expected --revision for "
            "three or more; use it instead."
        )
    for pair, run in match_all(models, names, folder, **options).items():
        typer.echo(f"\n{' and '.join(pair)}", err=format is not Format.TABLE)
        show_run(run, format)
        show_report(run)


def list_names(
    kind: Annotated[
        str,
        typer.Argument(
            help="analyses, probes, corpora, models, tables, figures or claims.",
            autocompletion=lambda incomplete: [k for k in KINDS if k.startswith(incomplete)],
        ),
    ] = "analyses",
    format: FormatOption = Format.TABLE,
) -> None:
    """List the analyses, tables, figures, claims, ... that can be named."""
    if kind not in KINDS:
        raise StudyError(
            f"There is no list of {kind!r}.{suggest(kind, KINDS)} Expected one of "
            f"{', '.join(KINDS)}; name one of them."
        )
    rows: list[tuple[str, str]]
    if kind == "tables":
        rows = [
            (name, f"{analysis}: {', '.join(columns)}")
            for analysis, entry in ANALYSES.entries().items()
            for name, columns in entry.load().tables.items()
        ]
        from headscope.view.paper_tables import list_paper_tables  # pandas: as below

        rows += [(name, f"for papers: {t.title}") for name, t in list_paper_tables().items()]
    elif kind == "figures":
        from headscope.view.figure import list_figures  # altair: only when it is needed
        from headscope.view.sheet import SHEETS

        named = [(f.name, f.title, f.paper) for f in list_figures().values()]
        named += [(sheet.name, sheet.title, sheet.paper) for sheet in SHEETS.values()]
        rows = [(name, title + f" ({paper})" * bool(paper)) for name, title, paper in named]
    elif kind == "claims":
        from headscope.view.claim import list_claims  # pandas: only when it is needed

        rows = [(claim.name, f"{claim.says} (section {claim.section})") for claim in list_claims()]
    else:
        rows = [(name, entry.summary) for name, entry in REGISTRIES[kind].entries().items()]
    if kind == MODELS.plural:
        rows.append(("FOLDER", "a folder with config.json, tokenizer.json, model.safetensors"))
        rows.append(("NAME", "a model on the Hugging Face hub, e.g. bert-base-uncased"))
        rows.append(("random-init:MODEL", "the embeddings of MODEL, all other weights random"))
    print_table(TextTable(("name", "what it is"), tuple(rows)), format)
