"""`headscope probe`: classifiers over all heads together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.commands.shared import (
    BatchTokens,
    Device,
    Dtype,
    Format,
    FormatOption,
    MinCount,
    QueryPieces,
    Replicates,
    Resume,
    Revision,
    Seed,
    TrustRemoteCode,
    name_folder,
    show_report,
    show_run,
)
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
    resume: Resume = False,
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
    query_pieces: QueryPieces = "mean",
    min_count: MinCount = 50,
    replicates: Replicates = 200,
    seed: Seed = 0,
    batch_tokens: BatchTokens = 2048,
    device: Device = "auto",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """How much syntax is in all heads of MODEL together: probes of the paper's section 5."""
    from headscope.runs.probe import probe as run_probe  # torch: only when it is needed

    run = run_probe(
        model,
        train=train,
        test=test,
        vectors=vectors,
        out=out or Path("runs") / f"probe-{name_folder(model)}",
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
    show_run(run, format, min_count)
    show_report(run)


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


def probe_after(run: "Run", model: str, options: Mapping[str, Any]) -> "Run":
    """The run with the probes of `analyze --train`, which lie in a folder within its own."""
    from headscope.runs.probe import probe as run_probe  # torch: only when it is needed
    from headscope.runs.results import PROBES, add_probes

    assert run.folder is not None  # the command line always has one
    return add_probes(run, run_probe(model, out=run.folder / PROBES, **options))
