"""The command line: thin, quick to start; all work is done by the library."""

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.commands.probe import probe, probe_after, refuse_untested
from headscope.errors import HeadscopeError, StudyError
from headscope.registry import ANALYSES, CORPORA, MODELS, suggest

if TYPE_CHECKING:
    from headscope.runs.results import Run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option(help="How to print the result on stdout.")]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # only here: it costs time that --help need not pay

        typer.echo(f"headscope {version('headscope')}")
        raise typer.Exit


@app.callback()
def headscope(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Version."),
    ] = False,
) -> None:
    """What do a transformer's attention heads look at?

    Measures any Hugging Face model on your own text in one pass, with a 95 % interval on every
    number. Start with: headscope analyze --demo
    """


@app.command()
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
    limit: Annotated[
        int | None, typer.Option(help="At most so many examples, a seeded random sample.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Longest input.", show_default="128 for text")
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
    with _explained():
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
            out=out or Path("runs") / name.strip("/.").replace("/", "--"),
            only=only,
            token_classes=classes,
            coarse=coarse,
            null=null,
            combine=combine,
            limit=limit,
            max_tokens=max_tokens,
            shard_examples=shard_examples,
            **running,
            **loading,
        )
        _show_run(run, format, min_count)
        if train and treebank:
            running |= {"train": train, "test": treebank[0], "vectors": vectors}
            probe_after(run, name, {**running, **loading}, format, min_count)


@app.command()
def merge(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs with the same model.")],
    out: Annotated[Path, typer.Option(help="Folder for the merged run.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Add runs of one model over different corpora: the numbers of one run over all of them."""
    with _explained():
        from headscope.runs.merge import merge_runs  # torch: only when it is needed

        _show_run(merge_runs(runs, out), format)


@app.command()
def table(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    name: Annotated[str, typer.Argument(help="The table's name, e.g. position.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print one table of a run."""
    with _explained():
        from headscope.report.terminal import print_rows  # only here: tables need pandas
        from headscope.runs.results import load_run

        tables = load_run(run).tables
        if name not in tables:
            known = ", ".join(tables)
            raise StudyError(f"No table {name!r} in {run}.{suggest(name, tables)} Known: {known}.")
        rows = tables[name].astype(object).itertuples(index=False)
        print_rows(tuple(tables[name].columns), [tuple(map(str, row)) for row in rows], format)


@app.command("list")
def list_names(
    kind: Annotated[str, typer.Argument(help="analyses, corpora or models.")] = "analyses",
    format: FormatOption = Format.TABLE,
) -> None:
    """List the analyses, corpora or models that can be named."""
    registries = {registry.plural: registry for registry in (ANALYSES, CORPORA, MODELS)}
    with _explained():
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


def main() -> None:
    """The `headscope` command."""
    app()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors a user can mend, and Ctrl-C, into a message and exit code 2."""
    _show_talk()
    try:
        yield
    except HeadscopeError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        again = shlex.join(["headscope", *arguments, "--resume"])
        typer.echo(f"\nInterrupted. Finished shards are kept; go on with:\n  {again}", err=True)
        raise typer.Exit(2) from None


app.command()(_explained()(probe))


def _show_talk() -> None:
    """Notes of the library on stderr, one plain line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    talk = logging.getLogger("headscope")
    talk.handlers = [handler]
    talk.setLevel(logging.INFO)


def _read_token_class(item: str) -> tuple[str, list[str]]:
    name, _, tokens = item.partition("=")
    return name, [token for token in tokens.split(",") if token]


def _show_run(run: "Run", format: Format, min_count: int = 50) -> None:
    from headscope.report.terminal import describe_counts, print_run  # pandas: as above

    print_run(run.tables, format, min_count)
    for key, counts in run.manifest["counts"].items():
        typer.echo(describe_counts(key, counts), err=True)
    typer.echo(f"Tables: {run.folder}/tables (csv and parquet)", err=True)
