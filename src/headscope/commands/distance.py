"""`headscope distance`: the heads of two models, matched. `headscope layout`: the map of a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headscope.commands.shared import (
    BatchTokens,
    Device,
    Dtype,
    Format,
    FormatOption,
    Limit,
    Replicates,
    Resume,
    Seed,
    TrustRemoteCode,
    name_folder,
    show_counts,
    show_report,
)

if TYPE_CHECKING:
    from headscope.runs.results import Run

__all__ = ["distance", "layout"]


def distance(
    model_a: Annotated[str, typer.Argument(help="A hub name, a local folder, or 'demo'.")],
    model_b: Annotated[str, typer.Argument(help="Another one with the same vocabulary.")],
    text: Annotated[
        str, typer.Option(help=".txt, .jsonl or .conllu file (also .gz), a folder, or 'starter'.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/A--B")
    ] = None,
    resume: Resume = False,
    rows: Annotated[int, typer.Option(help="Most query rows of an example to compare by.")] = 128,
    limit: Limit = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Longest input.", show_default="128")
    ] = None,
    replicates: Replicates = 200,
    seed: Seed = 0,
    batch_tokens: BatchTokens = 2048,
    device: Device = "auto",
    dtype: Dtype = "float32",
    trust_remote_code: TrustRemoteCode = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Match the heads of MODEL_A and MODEL_B, one to one, by how alike they attend to the text."""
    from headscope.report.distance import match_lines, match_summary  # pandas: only when needed
    from headscope.report.terminal import print_rows
    from headscope.runs.match import match_models

    names = [name_folder(name) for name in (model_a, model_b)]
    run = match_models(
        model_a,
        model_b,
        text=text,
        out=out or Path("runs") / "--".join(names),
        resume=resume,
        rows=rows,
        limit=limit,
        max_tokens=max_tokens,
        replicates=replicates,
        seed=seed,
        batch_tokens=batch_tokens,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    matches = run.tables["head-matches"]
    if format is Format.TABLE:
        print_rows(*match_lines(matches))
        print_rows(("", ""), match_summary(matches))
    else:
        _print_table(run, "head-matches", format)
    show_counts(run)


def layout(
    run: Annotated[Path, typer.Argument(help="Folder of a run with the analysis 'distance'.")],
    position: Annotated[
        float, typer.Option(help="Attention to the previous, same or next token to count.")
    ] = 0.5,
    special_token: Annotated[
        float, typer.Option(help="Attention to a special token or punctuation to count.")
    ] = 0.6,
    broad: Annotated[
        float, typer.Option(help="Entropy to count as broad, in nats at 128 tokens.")
    ] = 3.8,
    clusters: Annotated[
        int | None, typer.Option(help="How many clusters.", show_default="by silhouette")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random starts.", show_default="the run's")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Draw the map of heads of a run anew: places, clusters and behaviours."""
    from headscope.analyses.behaviours import Thresholds  # pandas: only when it is needed
    from headscope.report.distance import cluster_lines
    from headscope.report.terminal import print_rows
    from headscope.runs.redraw import redraw_layout

    drawn = redraw_layout(run, Thresholds(position, special_token, broad), clusters, seed)
    if format is Format.TABLE:
        print_rows(*cluster_lines(drawn.tables["layout"]))
    else:
        _print_table(drawn, "layout", format)
    facts = drawn.manifest["layout"]
    typer.echo(f"Stress of the map: {facts['stress']:.3f}", err=True)
    typer.echo(f"Tables: {run}/tables (layout and dendrogram written anew)", err=True)
    show_report(drawn)


def _print_table(run: "Run", name: str, format: Format) -> None:
    table = run.tables[name]
    if format is Format.JSON:
        typer.echo(json.dumps(json.loads(table.to_json(orient="records"))))
    else:
        typer.echo(table.to_csv(index=False), nl=False)
