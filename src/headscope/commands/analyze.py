"""`headscope analyze`: everything that the given data allows."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands.probe import probe_after, refuse_untested
from headscope.commands.shared import (
    BatchTokens,
    Device,
    Dtype,
    Format,
    FormatOption,
    Limit,
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

__all__ = ["analyze"]


def analyze(
    model: Annotated[
        str | None,
        typer.Argument(help="A hub name, a local folder, or 'demo' (which --demo implies)."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help=".txt, .jsonl or .conllu file (also .gz), a folder, or 'starter'."),
    ] = None,
    treebank: Annotated[
        list[str] | None,
        typer.Option(help=".conllu, .conllx or .conll file (also .gz) or folder; may be repeated."),
    ] = None,
    coref: Annotated[
        list[str] | None,
        typer.Option(help=".conllu with Entity=, CoNLL-2012, GAP .tsv, or folder; repeatable."),
    ] = None,
    train: Annotated[
        str | None, typer.Option(help="Also train probes on this treebank, tested on --treebank.")
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors (GloVe text, also .gz) for the probes.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Use the embedded corpus (and the embedded model).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/MODEL")
    ] = None,
    resume: Resume = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this analysis only (repeat for several).")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="Also run a costly analysis: gradient, ablation.")
    ] = None,
    token_class: Annotated[
        list[str] | None,
        typer.Option(help="A token class of your own for special-tokens: NAME=token,token."),
    ] = None,
    coarse: Annotated[
        bool, typer.Option("--coarse", help="Merge subtypes of relations: nsubj:pass into nsubj.")
    ] = False,
    query_pieces: QueryPieces = "mean",
    weights: Annotated[
        str, typer.Option(help="attention, or norm: the size of what each token really adds.")
    ] = "attention",
    rows: Annotated[
        int, typer.Option(help="Most query rows of an example to compare heads by (distance).")
    ] = 128,
    heads: Annotated[
        str | None, typer.Option(help="Heads to ablate, as 3-5,8-10.", show_default="all")
    ] = None,
    min_count: MinCount = 50,
    null: Annotated[
        bool, typer.Option("--null", help="Also measure MODEL with random weights, to compare.")
    ] = False,
    combine: Annotated[
        bool,
        typer.Option(
            "--combine", help="Also parse with the best heads combined (reads treebanks again)."
        ),
    ] = False,
    singletons: Annotated[
        bool,
        typer.Option("--singletons", help="Let things mentioned once compete as antecedents."),
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Do without files of a folder that are bad.")
    ] = False,
    limit: Limit = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(help="Longest input.", show_default="128 for text, 128 and 512 for --coref"),
    ] = None,
    replicates: Replicates = 200,
    seed: Seed = 0,
    batch_tokens: BatchTokens = 2048,
    shard_examples: Annotated[int, typer.Option(help="Examples between two saves.")] = 1024,
    examples: Annotated[
        bool, typer.Option(help="Show notable heads at the examples where they do best and worst.")
    ] = True,
    report: Annotated[bool, typer.Option(help="Write report.html into --out.")] = True,
    device: Device = "auto",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Measure every head of MODEL on the data you give, and write tables to --out."""
    if model is None and not demo:
        raise StudyError("No model was named. Expected MODEL --text FILE, or --demo.")
    treebank = treebank or (["starter"] if demo else None)
    refuse_untested(train, treebank, vectors)
    name = model or "demo"
    classes = dict(_read_token_class(item) for item in token_class or [])
    both: dict[str, Any] = {"resume": resume, "seed": seed, "replicates": replicates}
    both |= {"query_pieces": query_pieces, "batch_tokens": batch_tokens, "revision": revision}
    both |= {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    from headscope.runs.analyze import analyze as run_analyze  # torch: only when it is needed

    run = run_analyze(
        name,
        text=text or ("starter" if demo else None),
        treebank=treebank,
        coref=coref or (["starter"] if demo else None),
        out=out or Path("runs") / name_folder(name),
        only=only,
        also=also or (),
        token_classes=classes,
        coarse=coarse,
        weights=weights,
        heads=heads,
        rows=rows,
        null=null,
        combine=combine,
        singletons=singletons,
        skip_bad=skip_bad,
        limit=limit,
        max_tokens=max_tokens,
        shard_examples=shard_examples,
        examples=examples,
        **both,
    )
    if train and treebank:
        both |= {"train": train, "test": treebank[0], "vectors": vectors}
        run = probe_after(run, name, both)
    show_run(run, format, min_count)
    if report:
        show_report(run)


def _read_token_class(item: str) -> tuple[str, list[str]]:
    name, _, tokens = item.partition("=")
    return name, [token for token in tokens.split(",") if token]
