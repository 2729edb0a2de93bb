"""`headscope analyze`: all that the given data allows. `headscope probe`: heads together."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.commands import talk
from headscope.commands.shared import (
    FormatOption,
    MinCount,
    Model,
    Resume,
    choose_folder,
    complete_analysis,
    complete_probe,
    name_folder,
    of_data,
    of_output,
    of_run,
    show_report,
    show_run,
)
from headscope.contracts import CorpusRole
from headscope.errors import StudyError, say_count
from headscope.options import ClusterOptions, ModelOptions, ProbeOptions, collect_options
from headscope.view.table import Format

__all__ = ["analyze", "probe"]

PARTIAL = 3  # the exit code of a run that lacks something


def analyze(
    model: Annotated[
        str | None,
        typer.Argument(help="A hub name, a folder, a .gguf file, or 'demo'.", metavar="[MODEL]"),
    ] = None,
    text: Annotated[
        list[str] | None,
        of_data(
            help="Text: .txt, .jsonl, .conllu, a folder, 'starter', or hf:NAME (a dataset).",
            metavar="FILE",
        ),
    ] = None,
    treebank: Annotated[
        list[str] | None,
        of_data(help="Syntax: .conllu, .conllx, .conll, or a folder.", metavar="FILE"),
    ] = None,
    coref: Annotated[
        list[str] | None,
        of_data(help="Coreference: .conllu, CoNLL-2012, GAP .tsv, a folder.", metavar="FILE"),
    ] = None,
    demo: Annotated[bool, of_data("--demo", help="Use the embedded corpus and model.")] = False,
    train: Annotated[
        str | None, of_data(help="Also train probes on this treebank, tested on --treebank.")
    ] = None,
    vectors: Annotated[
        Path | None, of_data(help="Word vectors (GloVe text, also .gz) for the probes.")
    ] = None,
    models: Annotated[
        Path | None, of_data(help="Analyze all models listed in this file, one per line.")
    ] = None,
    only: Annotated[
        list[str] | None,
        of_run(
            help="Run these analyses only.", metavar="NAME,...", autocompletion=complete_analysis
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        of_run(
            help="Also run slower analyses (headscope list).",
            metavar="NAME,...",
            autocompletion=complete_analysis,
        ),
    ] = None,
    resume: Resume = False,
    out: Annotated[
        Path | None,
        of_output(help="Folder for the results.", show_default="runs/MODEL", metavar="FOLDER"),
    ] = None,
    report: Annotated[bool, of_output(help="Write report.html into --out.")] = True,
    min_count: MinCount = 50,
    format: FormatOption = Format.TABLE,
    **options: Any,
) -> None:
    """Measure every head of MODEL on your data."""
    if model is None and models is None and not demo:
        raise StudyError(
            "No model was named. Expected MODEL --text FILE, or --demo; add one of them."
        )
    starter = ["starter"] if demo else None
    if demo and not only:
        options = {"null": 1, **options}  # which claims hold without training too
    treebank = treebank or starter
    _refuse_untested(train, treebank, vectors)
    if train and options.get("shard"):
        raise StudyError(
            "--train cannot be used with --shard: probes learn from the whole treebank. Expected "
            "one of the two; leave --train out and run `headscope probe` separately."
        )
    texts: Any = text or starter
    study: dict[str, Any] = {
        "text": texts[0] if texts and len(texts) == 1 else texts,
        "treebank": treebank,
        "coref": coref or starter,
        "only": only,
        "also": also or (),
        "resume": resume,
        "progress": not talk.is_quiet(),
        **options,
    }
    if models is not None:
        for given, what in ((model, f"MODEL {model}"), (train, f"--train {train}")):
            if given:
                raise StudyError(
                    f"{what} was given together with --models. Expected only one of them; leave "
                    "the other out."
                )
        _analyze_models(models, choose_folder(out or Path("runs"), Path(), resume), report, study)
        return
    name = model or "demo"
    _refuse_wrong_names(study, options)
    with talk.loading():
        from headscope.engine.analyze import analyze as run_analyze  # torch: only when needed
        from headscope.engine.open_models import CachedModel

    kept = CachedModel(name) if train else name  # for the probes
    folder = choose_folder(out, Path("runs") / name_folder(name), resume)
    run = run_analyze(kept, out=folder, **study)
    if part := options.get("shard"):
        typer.echo(f"Part {part} is done. Join all parts: headscope merge PARTS... --out RUN")
        return
    if train and treebank:
        from headscope.engine.probe import probe_within  # torch: as above

        of_probes = collect_options(ProbeOptions, ModelOptions, ClusterOptions)
        shared = {name: value for name, value in options.items() if name in of_probes}
        shared |= {"train": train, "test": treebank[0], "vectors": vectors, "resume": resume}
        run = probe_within(run, kept, progress=not talk.is_quiet(), **shared)
    show_run(run, format, min_count)
    if report:
        show_report(run)
    _tell_partial(run.manifest)


def _refuse_wrong_names(study: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """The errors of what was typed, before torch is loaded, which takes seconds."""
    from headscope.corpora.opening import as_corpora  # pandas: not for --help
    from headscope.engine.resolve import choose_analyses, read_names, split_options

    run, _, _, of_analyses = split_options(options)
    also = read_names(study["also"]) or ()
    choose_analyses(read_names(study["only"]), also, of_analyses, run.seed)
    for role in CorpusRole:
        if study[role] is not None:
            as_corpora(study[role], role, run.skip_bad)


def _tell_partial(manifest: Mapping[str, Any]) -> None:
    """Say what a run lacks, and end with the exit code of a partial one."""
    if failed := manifest.get("failed"):
        n_lost = sum(shard["examples"] for shard in failed)
        typer.echo(
            f"Partial: {say_count(n_lost, 'example')} could not be measured; see above.", err=True
        )
    for name in manifest.get("failed_analyses", ()):
        typer.echo(f"Partial: the analysis {name} failed; see above.", err=True)
    if manifest["status"] == "partial":
        raise typer.Exit(PARTIAL)


def _analyze_models(file: Path, out: Path, report: bool, study: dict[str, Any]) -> None:
    """Analyze many models, each into a folder in `out`; say at the end which could not be."""
    with talk.loading():
        from headscope.engine.batch_models import analyze_models, read_models  # torch: as above
        from headscope.runs.run import load_run

    folders = {name: out / name_folder(name) for name in read_models(file)}
    failed: dict[str, str] = {}
    for name, reason in analyze_models(folders, **study):
        if reason:
            failed[name] = reason
        elif report and not study.get("shard"):
            show_report(load_run(folders[name]))
        typer.echo(f"{name}: {'failed' if reason else folders[name]}")
    for name, reason in failed.items():
        typer.echo(f"{name} failed: {reason}", err=True)
    if failed:
        typer.echo(f"{len(failed)} of {len(folders)} models failed.", err=True)
        raise typer.Exit(PARTIAL)


def _refuse_untested(train: str | None, treebanks: list[str] | None, vectors: Path | None) -> None:
    if train and not treebanks:
        raise StudyError(
            f"--train {train} was given without --treebank. Expected a treebank to score the "
            "probes on; add --treebank FILE.conllu."
        )
    if train and treebanks and len(treebanks) > 1:
        raise StudyError(
            f"--train {train} was given with {len(treebanks)} treebanks. Expected one --treebank "
            "to score the probes on; run `headscope probe` for each of them."
        )
    if vectors and not train:
        raise StudyError(
            f"--vectors {vectors} was given without --train. Expected a treebank for probes to "
            "learn from; add --train FILE.conllu, or leave --vectors out."
        )
    if vectors and not vectors.is_file():
        raise StudyError(
            f"--vectors {vectors} is not a file. Expected word vectors as text (GloVe or word2vec, "
            "also .gz); check the path."
        )


def probe(
    model: Model,
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
        typer.Option(help="Folder for stored attention.", show_default="'stores', next to --out"),
    ] = None,
    resume: Resume = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run these probes only: NAME or NAME,NAME.", autocompletion=complete_probe
        ),
    ] = None,
    min_count: MinCount = 50,
    format: FormatOption = Format.TABLE,
    **options: Any,
) -> None:
    """Train probes: how much syntax is in all heads of MODEL together?"""
    from headscope.corpora.opening import open_corpus  # pandas: not for --help

    for treebank in (train, test):  # a wrong name is told before torch is loaded
        open_corpus(treebank, CorpusRole.TREEBANK)
    with talk.loading():
        from headscope.engine.probe import probe as run_probe  # torch: only when needed

    run = run_probe(
        model,
        train=train,
        test=test,
        vectors=vectors,
        out=choose_folder(out, Path("runs") / f"probe-{name_folder(model)}", resume),
        store=store,
        resume=resume,
        only=only,
        progress=not talk.is_quiet(),
        **options,
    )
    show_run(run, format, min_count)
    show_report(run)
