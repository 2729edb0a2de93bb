"""`headscope analyze`: everything that the given data allows."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands.probe import probe_after, refuse_untested
from headscope.commands.shared import Format, FormatOption, show_run
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
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")
    ] = False,
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
    query_pieces: Annotated[
        str, typer.Option(help="Which pieces attend for a split word: mean (of all) or first.")
    ] = "mean",
    weights: Annotated[
        str, typer.Option(help="attention, or norm: the size of what each token really adds.")
    ] = "attention",
    rows: Annotated[
        int, typer.Option(help="Most query rows of an example to compare heads by (distance).")
    ] = 128,
    heads: Annotated[
        str | None, typer.Option(help="Heads to ablate, as 3-5,8-10.", show_default="all")
    ] = None,
    min_count: Annotated[
        int, typer.Option(help="Print relations with at least so many words (files have all).")
    ] = 50,
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
    limit: Annotated[
        int | None, typer.Option(help="At most so many examples, a seeded random sample.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(help="Longest input.", show_default="128 for text, 128 and 512 for --coref"),
    ] = None,
    replicates: Annotated[
        int, typer.Option(help="Bootstrap replicates for the intervals; 0 for none.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the sample and the bootstrap.")] = 0,
    batch_tokens: Annotated[int, typer.Option(help="Most tokens in a batch.")] = 2048,
    shard_examples: Annotated[int, typer.Option(help="Examples between two saves.")] = 1024,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32, float16, bfloat16 or auto.")] = "float32",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Measure every head of MODEL on the data you give, and write tables to --out."""
    if model is None and not demo:
        raise StudyError("No model was named. Expected MODEL --text FILE, or --demo.")
    treebank = treebank or (["starter"] if demo else None)
    refuse_untested(train, treebank, vectors)
    name = model or "demo"
    classes = dict(_read_token_class(item) for item in token_class or [])
    running: dict[str, Any] = {"resume": resume, "seed": seed, "replicates": replicates}
    running |= {"query_pieces": query_pieces, "batch_tokens": batch_tokens}
    loading: dict[str, Any] = {"revision": revision, "device": device, "dtype": dtype}
    loading["trust_remote_code"] = trust_remote_code
    from headscope.runs.analyze import analyze as run_analyze  # torch: only when it is needed

    run = run_analyze(
        name,
        text=text or ("starter" if demo else None),
        treebank=treebank,
        coref=coref or (["starter"] if demo else None),
        out=out or Path("runs") / name.strip("/.").replace("/", "--"),
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
        **running,
        **loading,
    )
    show_run(run, format, min_count)
    if train and treebank:
        running |= {"train": train, "test": treebank[0], "vectors": vectors}
        probe_after(run, name, {**running, **loading}, format, min_count)


def _read_token_class(item: str) -> tuple[str, list[str]]:
    name, _, tokens = item.partition("=")
    return name, [token for token in tokens.split(",") if token]
