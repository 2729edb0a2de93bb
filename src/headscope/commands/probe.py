"""`headscope probe`: classifiers over all heads together."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.commands.shared import Format, FormatOption, show_counts
from headscope.errors import StudyError

if TYPE_CHECKING:
    from headscope.runs.results import Run

__all__ = ["probe", "probe_after", "refuse_untested"]


def probe(
    model: Annotated[str, typer.Argument(help="A hub name, a local folder, or 'demo'.")],
    train: Annotated[str, typer.Option(help="Treebank to learn from: .conllu (also .gz), folder.")],
    test: Annotated[str, typer.Option(help="Treebank to score on.")],
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors: GloVe or word2vec text (also .gz).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/probe-MODEL")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder for stored attention.", show_default="'stores' beside --out"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this probe only (repeat for several).")
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(help="Learn from so many sentences, a seeded random sample.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Most epochs of a probe trained by Adam.")] = 20,
    compat: Annotated[
        bool,
        typer.Option("--compat", help="Word vectors one place off, as in the paper's code."),
    ] = False,
    curve: Annotated[bool, typer.Option(help="Also learn from parts of the sentences.")] = True,
    query_pieces: Annotated[
        str, typer.Option(help="Which pieces attend for a split word: mean (of all) or first.")
    ] = "mean",
    min_count: Annotated[
        int, typer.Option(help="Print relations with at least so many words (files have all).")
    ] = 50,
    replicates: Annotated[
        int, typer.Option(help="Bootstrap replicates for the intervals; 0 for none.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="Seed of samples, training and bootstrap.")] = 0,
    batch_tokens: Annotated[int, typer.Option(help="Most tokens in a batch.")] = 2048,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32, float16, bfloat16 or auto.")] = "float32",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """How much syntax is in all heads of MODEL together: probes of the paper's section 5."""
    from headscope.runs.probe import probe as run_probe  # torch: only when it is needed

    run = run_probe(
        model,
        train=train,
        test=test,
        vectors=vectors,
        out=out or Path("runs") / f"probe-{model.strip('/.').replace('/', '--')}",
        store=store,
        resume=resume,
        only=only,
        sentences=sentences,
        epochs=epochs,
        compat=compat,
        curve=curve,
        query_pieces=query_pieces,
        replicates=replicates,
        seed=seed,
        batch_tokens=batch_tokens,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    show_probes(run, format, min_count)


def refuse_untested(
    train: str | None, treebanks: Sequence[str] | None, vectors: Path | None
) -> None:
    """Say before any work that `analyze` lacks what its probes need, or needs no vectors."""
    if train and not treebanks:
        raise StudyError(
            f"--train {train} was given without --treebank. Expected a treebank to score the "
            "probes on; add --treebank FILE.conllu."
        )
    if vectors and not train:
        raise StudyError(
            f"--vectors {vectors} was given without --train. Expected a treebank for probes to "
            "learn from; add --train FILE.conllu, or leave --vectors out."
        )


def probe_after(
    run: "Run", model: str, options: Mapping[str, Any], format: str, min_count: int
) -> None:
    """The probes of `analyze --train`, in a folder within that of the run."""
    from headscope.runs.probe import probe as run_probe  # torch: only when it is needed

    assert run.folder is not None  # the command line always has one
    probes = run_probe(model, out=run.folder / "probes", **options)
    if format == Format.TABLE:
        typer.echo()
    show_probes(probes, format, min_count)


def show_probes(run: "Run", format: str, min_count: int) -> None:
    """Print the probes beside the paper's, and draw the weights into the run's folder."""
    from headscope.report.figures.probes import PROBE_WEIGHTS  # altair, pandas: slow to import
    from headscope.report.figures.saving import render
    from headscope.report.probes import probe_lines, relation_lines
    from headscope.report.terminal import print_rows
    from headscope.runs.files import write_atomically

    if format == "json":
        records = {n: json.loads(t.to_json(orient="records")) for n, t in run.tables.items()}
        typer.echo(json.dumps(records))
    elif format == "csv":
        for name, table in run.tables.items():
            typer.echo(f"# {name}\n{table.to_csv(index=False)}")
    else:
        print_rows(*probe_lines(run.tables["probes"]))
        print()
        print_rows(*relation_lines(run.tables["probe-relations"], min_count))
    show_counts(run)
    if run.folder and (run.tables["probe-weights"]["probe"] == "attention-only").any():
        picture = run.folder / "figures" / "probe-weights.svg"
        write_atomically(picture, render(PROBE_WEIGHTS.draw(run.tables), "svg"))
        typer.echo(f"Which heads the parse is made of: {picture}", err=True)
