"""What is to be done: which analyses run over which corpus, and what is left out and why.

`list_passes` says what the data allows, before anything is read. `plan` applies the rules of the
model to it, once the model is known: each says why an analysis cannot run in a pass.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from logging import getLogger
from typing import Any

from headscope.contracts import Analysis, Annotation, AttentionKind, CorpusRole, Source, Watch
from headscope.corpora.collection import BaseCorpus, adopt
from headscope.data.attention import heads_per_layer
from headscope.data.table import KIND
from headscope.engine.open_models import Models
from headscope.engine.passes import RULES, Pass, Reasons, has_kinds
from headscope.engine.sample import MADE_UP, Sample
from headscope.errors import StudyError, name_parameters
from headscope.options import RunOptions
from headscope.runs.manifest import begin_manifest

__all__ = [
    "TEXT_TOKENS", "Pass", "describe_study", "list_passes", "make_corpora", "plan", "tell_left_out",
]  # fmt: skip

log = getLogger("headscope")

TEXT_TOKENS = 128  # the paper's segments
COREF_WINDOWS = (128, 512)  # the paper's, and longer ones beside it
MISSING = {
    Annotation.DEPENDENCIES: "no treebank with dependency trees was given (--treebank FILE.conllu)",
    Annotation.TAGS: "no treebank with parts of speech was given (--treebank FILE.conllu)",
    Annotation.COREFERENCE: "no corpus with coreference was given (--coref FILE.conllu)",
    Annotation.PRONOUN_CHOICES: "no GAP corpus was given (--coref gap-validation.tsv)",
    Annotation.ALIGNMENTS: "no corpus with gold alignments was given (--text FILE.jsonl, its "
    "examples with text, text_pair and alignment)",
    Annotation.NEEDLES: "no text was given to hide facts in (--text FILE)",
    Annotation.TARGETS: "no corpus with targets was given (--text FILE.jsonl, its examples with "
    "text and text_pair)",
}
NO_TARGETS = "decoder and cross attention"  # what is left out without them


def make_corpora(
    analyses: Iterable[Analysis], given: Sequence[tuple[CorpusRole, BaseCorpus]]
) -> list[tuple[CorpusRole, BaseCorpus]]:
    """The corpora that analyses make for themselves where none that was given has what they need.

    Equal ones are made once. Without any other corpus, all analyses read them, which is told.
    """
    text = next((corpus for role, corpus in given if role is CorpusRole.TEXT), None)
    made: list[tuple[CorpusRole, BaseCorpus]] = []
    for analysis in analyses:
        if any(analysis.needs <= corpus.provides for _, corpus in given):
            continue
        corpus = analysis.make_corpus(text)
        if corpus is not None and not any(corpus == other for _, other in made):
            is_long = Annotation.NEEDLES in corpus.provides  # which must not be cut
            made.append((CorpusRole.TREEBANK if is_long else CorpusRole.TEXT, adopt(corpus)))
    if made and not given:
        names = " and ".join(corpus.name for _, corpus in made)
        log.warning(
            "No corpus was given, so heads are measured on made-up input alone (%s), not on "
            "language. To measure them on text, add %s.",
            names, name_parameters("--text FILE"),
        )  # fmt: skip
    return made


def list_passes(
    analyses: Collection[Analysis],
    corpora: Sequence[tuple[CorpusRole, BaseCorpus]],
    options: RunOptions,
    is_explicit: bool,
) -> tuple[list[Pass], list[tuple[Analysis, str]]]:
    """Which analyses have their annotation in which corpus, and what is left out for lack of it.

    What needs annotation runs over every corpus that has it, the rest over the first corpus. What
    was asked for by name (`is_explicit`) and cannot be done is an error.
    """
    if not corpora:
        raise StudyError(
            "There is nothing to read. Expected a corpus: --text FILE, --treebank FILE, --coref "
            "FILE, or --demo for the embedded one."
        )
    names = [c.name if MADE_UP & c.provides else str(role) for role, c in corpora]
    n_of_name, numbers = Counter(names), Counter[str]()
    passes: list[Pass] = []
    for name, (role, corpus) in zip(names, corpora, strict=True):
        numbers[name] += 1
        key = name if n_of_name[name] == 1 else f"{name}-{numbers[name]}"
        if role is CorpusRole.COREF:
            passes += _list_windows(Pass(key, role, corpus), options)
        else:
            passes.append(Pass(key, role, corpus))
    lacking: list[tuple[Analysis, str]] = []
    costly: list[Pass] = []
    for analysis in analyses:
        able = [i for i, pass_ in enumerate(passes) if analysis.needs <= pass_.corpus.provides]
        if not able:
            needs = " and ".join(sorted(analysis.needs))
            known = (MISSING[annotation] for annotation in MISSING if annotation in analysis.needs)
            reason = next(known, f"no corpus with {needs} was given")
            lacking.append((analysis, f"Skipped {analysis.name!r}: {reason}."))
        elif analysis.watches.is_costly:
            first, watch = passes[able[0]], analysis.watches
            key = f"{watch.value}-{first.key}"
            costly.append(replace(first, key=key, watch=watch, analyses=(analysis,)))
        else:
            for i in able if analysis.needs else able[:1]:
                passes[i] = replace(passes[i], analyses=(*passes[i].analyses, analysis))
    if is_explicit and lacking:
        raise StudyError(" ".join(reason for _, reason in lacking))
    return [pass_ for pass_ in (*passes, *costly) if pass_.analyses], lacking


def _list_windows(pass_: Pass, options: RunOptions) -> Iterator[Pass]:
    """Documents are read in windows of two lengths, unless the user said how long; or truncated to
    the paper's length, as the first pass."""
    tokens = options.max_tokens
    if options.coref_window != "split":
        key, window = f"{pass_.key}-truncated", tokens or COREF_WINDOWS[0]
        yield replace(pass_, key=key, window=window, cut="truncate")
    if options.coref_window != "truncate":
        for window in COREF_WINDOWS if tokens is None else (tokens,):
            key = f"{pass_.key}-{window}" if tokens is None else pass_.key
            yield replace(pass_, key=key, window=window)


def plan(
    passes: Sequence[Pass],
    lacking: Iterable[tuple[Analysis, str]],
    models: Models,
    options: RunOptions,
    is_explicit: bool,
) -> tuple[list[Pass], Reasons]:
    """The passes that the model can do, repeats included, and what is left out and why.

    `lacking` are analyses whose annotation is lacking.
    """
    planned: list[Pass] = []
    left_out: Reasons = {
        analysis.name: reason
        for analysis, reason in lacking
        if models.has_decoder or analysis.watches is not Watch.CROSS_ATTENTION
    }
    errors: list[str] = []
    for pass_ in _fit_windows(passes, models.source, options.max_tokens):
        kept: tuple[Analysis, ...] = ()
        for analysis in pass_.analyses:
            reasons = (rule(analysis, pass_, models) for rule in RULES)
            reason = next((reason for reason in reasons if reason), None)
            if reason is None:
                kept = (*kept, analysis)
                continue
            if is_explicit and reason.is_refused:
                raise StudyError(reason.error)
            errors.append(reason.error)
            left_out |= {analysis.name: reason.text} if reason.text else {}
        if kept:
            pass_ = replace(pass_, analyses=kept)
            left_out |= _say_encoder_alone(pass_, models)
            planned.append(_split_by_kind(pass_, models, left_out))
            left_out |= _say_few_heads(pass_, models.source)
    if passes and not planned:
        raise StudyError(errors[0])
    watched = [pass_ for pass_ in planned if not pass_.watch.is_costly]
    if options.null and not watched:
        raise StudyError(
            "--null has nothing to compare: no analysis of this run measures attention. Expected "
            "one, such as those of --text FILE; add it, or leave --null out."
        )
    repeats = [
        replace(pass_, key=f"untrained-{draw}-{pass_.key}", repeats=pass_.key, draw=draw)
        for draw in range(1, options.null + 1)
        for pass_ in watched
    ]
    return [*planned, *repeats], left_out


def _fit_windows(
    passes: Iterable[Pass], source: Source[Any], max_tokens: int | None
) -> Iterator[Pass]:
    """The passes with the tokens and windows that the model takes; of two lengths only one if they
    become one."""
    if max_tokens is not None and max_tokens > source.max_tokens:
        raise StudyError(
            f"--max-tokens {max_tokens} is too long: {source.name} takes at most "
            f"{source.max_tokens} tokens. Expected that many or fewer; lower "
            "--max-tokens, or leave it out."
        )
    windows: set[object] = set()
    for pass_ in passes:
        usual = TEXT_TOKENS if pass_.role is CorpusRole.TEXT else pass_.window
        usual = pass_.corpus.most_tokens or usual
        given = None if pass_.corpus.most_tokens else max_tokens
        tokens = given or min(usual or source.max_tokens, source.max_tokens)
        window = pass_.window and min(pass_.window, source.max_tokens)
        reading = (id(pass_.corpus), window, pass_.cut, pass_.watch)
        if window is None or reading not in windows:
            yield replace(pass_, window=window, max_tokens=tokens)
        windows.add(reading)


def _split_by_kind(pass_: Pass, models: Models, left_out: Reasons) -> Pass:
    if not has_kinds(pass_, models):
        return pass_
    by_kind: dict[AttentionKind, tuple[Analysis, ...]] = {}
    for kind, part in models.parts.items():
        why = {a.name: _why_not_of_kind(a, kind, part) for a in pass_.analyses}
        by_kind[kind] = tuple(a for a in pass_.analyses if why[a.name] is None)
        left_out |= {
            f"{name} ({kind})": f"Analysis {name!r} is left out of {kind} attention: {reason}"
            for name, reason in why.items()
            if reason
        }
    return replace(pass_, by_kind=by_kind)


def _why_not_of_kind(analysis: Analysis, kind: AttentionKind, part: Any) -> str | None:
    """Why an analysis does not measure a kind of attention; "" if nobody would expect it to."""
    is_cross = kind is AttentionKind.CROSS
    if analysis.watches is Watch.CROSS_ATTENTION:
        return None if is_cross else ""
    if is_cross and not analysis.measures_cross:
        return "it measures attention among the tokens of one text."
    if analysis.compares_layers and part.n_layers == 1:
        return "it compares the heads of different layers, and there is one."
    return None


def _say_encoder_alone(pass_: Pass, models: Models) -> Reasons:
    is_plain = pass_.watch is Watch.ATTENTION
    if not (models.has_decoder and is_plain) or has_kinds(pass_, models):
        return {}
    alone = f"{pass_.corpus.name}: only the encoder of {models.name} is measured"
    if Annotation.TARGETS in pass_.corpus.provides:
        return {NO_TARGETS: f"{alone}. {models.why_no_decoder}"}
    if pass_.role is CorpusRole.TEXT:
        reason = (
            f"{alone} because its decoder has nothing to write. Expected targets: --text "
            "FILE.jsonl, its examples with text and text_pair."
        )
        return {NO_TARGETS: reason}
    names = ", ".join(analysis.name for analysis in pass_.analyses)
    return {f"{NO_TARGETS} ({pass_.key})": f"{alone} by {names}: its sentences have no targets."}


def _say_few_heads(pass_: Pass, source: Source[Any]) -> Reasons:
    """Of analyses that compare only some heads of a large model, how many."""
    reasons: Reasons = {}
    compared: list[Any] = [a for a in pass_.analyses if a.compares_layers]
    for analysis in compared:
        n_compared = heads_per_layer(source.n_heads, source.n_layers, analysis.max_heads)
        if n_compared < source.n_heads:
            reasons[analysis.name] = (
                f"{analysis.name!r} compares {n_compared} of the {source.n_heads} heads of each "
                f"layer, evenly spread: --max-heads {analysis.max_heads} in all. Raise it to "
                "compare more."
            )
    return reasons


def describe_study(
    source: Source[Any],
    passes: Sequence[Pass],
    samples: Mapping[str, Sample],
    options: RunOptions,
    left_out: Reasons,
) -> dict[str, Any]:
    """Everything about a run that is known before it starts."""
    analyses: list[Any] = [analysis for pass_ in passes for analysis in pass_.analyses]
    return {
        **begin_manifest(source.describe(), asdict(options), left_out),
        "passes": {pass_.key: _describe(pass_, samples[pass_.key]) for pass_ in passes},
        "analyses": {analysis.name: asdict(analysis) for analysis in analyses},
    }


def _describe(pass_: Pass, sample: Sample) -> dict[str, Any]:
    corpus = sample.corpus
    return {
        "corpus": corpus.name,
        "role": str(pass_.role),
        "path": corpus.location,
        "digest": corpus.digest(),
        "documents": corpus.documents,
        "available": sample.n_available,
        "examples": sample.n_examples,
        "analyses": [analysis.name for analysis in pass_.analyses],
        "watch": pass_.watch.value,
        KIND: {kind.value: [a.name for a in some] for kind, some in pass_.by_kind.items()},
        "window": pass_.window,
        "cut": pass_.cut if pass_.window else None,
        "repeats": pass_.repeats,
        "draw": pass_.draw,
        "skipped_files": corpus.skipped_files,
    }


def tell_left_out(left_out: Reasons) -> None:
    """Say what is not measured, and why."""
    for reason in left_out.values():
        log.warning("%s", name_parameters(reason))
