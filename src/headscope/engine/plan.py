"""What is to be done: which analyses run over which corpus, decided before any work."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from logging import getLogger
from typing import Any

from headscope.contracts import (
    Analysis,
    Annotation,
    AttentionKind,
    Corpus,
    CorpusRole,
    Source,
    Watch,
)
from headscope.data.attention import heads_per_layer
from headscope.data.table import KIND
from headscope.engine.sample import Sample
from headscope.errors import StudyError, first_part, name_parameters
from headscope.options import CUTS, RunOptions
from headscope.runs.manifest import begin_manifest

__all__ = [
    "Pass",
    "describe_study",
    "fit_windows",
    "leave_out_lone_layers",
    "leave_out_many_heads",
    "plan_kinds",
    "plan_passes",
    "plan_untrained",
    "refuse_single_model",
    "say_skipped",
    "tell_left_out",
    "tokens_for",
]

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
    Annotation.TARGETS: "no corpus with targets was given (--text FILE.jsonl, its examples with "
    "text and text_pair)",
}
NO_TARGETS = "decoder and cross attention"  # what is left out without them


@dataclass(frozen=True)
class Pass:
    """One reading of one corpus, for all analyses that it serves."""

    key: str  # names the pass in the run's folder
    role: CorpusRole
    corpus: Corpus
    analyses: tuple[Analysis, ...] = ()
    watch: Watch = Watch.ATTENTION  # what the analyses are shown
    window: int | None = None  # the tokens of a window that documents are cut into
    cut: str = CUTS[0]  # or "truncate": only the first window of a document is read
    repeats: str | None = None  # the key of the pass that this one repeats
    draw: int | None = None  # which of several untrained models is measured, from 1
    # What each kind of attention is measured by, where an encoder-decoder reads targets.
    by_kind: Mapping[AttentionKind, tuple[Analysis, ...]] = field(default_factory=dict)

    def describe(self, sample: Sample) -> dict[str, Any]:
        """What the manifest says of the pass."""
        return {
            "corpus": self.corpus.name,
            "role": str(self.role),
            "path": str(getattr(self.corpus, "path", "")),
            "digest": self.corpus.digest(),
            "documents": getattr(self.corpus, "documents", ""),
            "available": sample.n_available,
            "examples": sample.n_examples,
            "analyses": [analysis.name for analysis in self.analyses],
            "watch": self.watch.value,
            KIND: {kind.value: [a.name for a in own] for kind, own in self.by_kind.items()},
            "window": self.window,
            "cut": self.cut if self.window else None,
            "repeats": self.repeats,
            "draw": self.draw,
            "skipped_files": getattr(self.corpus, "skipped_files", {}),
        }


def tokens_for(pass_: Pass, source: Source[Any], max_tokens: int | None) -> int:
    """The longest input of a pass: the paper's 128 for text, else what the model takes."""
    if max_tokens is None:
        usual = TEXT_TOKENS if pass_.role is CorpusRole.TEXT else pass_.window
        return min(usual, source.max_tokens) if usual else source.max_tokens
    if max_tokens > source.max_tokens:
        raise StudyError(
            f"--max-tokens {max_tokens} is too long: {source.name} takes at most "
            f"{source.max_tokens} tokens. Expected that many or fewer; lower "
            "--max-tokens, or leave it out."
        )
    return max_tokens


def plan_passes(
    analyses: Collection[Analysis],
    corpora: Sequence[tuple[CorpusRole, Corpus]],
    is_explicit: bool,
    max_tokens: int | None = None,
    coref_window: str = CUTS[0],
) -> tuple[list[Pass], dict[str, str]]:
    """Which analyses run over which corpus, and what is left out and why.

    What needs annotation runs over every corpus that has it, the rest over the first corpus. What
    was asked for by name (`is_explicit`) and cannot be done is an error.
    """
    if not corpora:
        raise StudyError(
            "There is nothing to read. Expected a corpus: --text FILE, --treebank FILE, --coref "
            "FILE, or --demo for the embedded one."
        )
    passes = list(_list_passes(corpora, max_tokens, coref_window))
    left_out: dict[str, str] = {}
    costly: list[Pass] = []
    for analysis in analyses:
        able = [i for i, one in enumerate(passes) if analysis.needs <= one.corpus.provides]
        if not able:
            left_out[analysis.name] = _say_missing(analysis)
        elif analysis.watches.is_costly:
            first, watch = passes[able[0]], analysis.watches
            key = f"{watch.value}-{first.key}"
            costly.append(replace(first, key=key, watch=watch, analyses=(analysis,)))
        else:
            for i in able if analysis.needs else able[:1]:
                passes[i] = replace(passes[i], analyses=(*passes[i].analyses, analysis))
    if is_explicit and left_out:
        raise StudyError(" ".join(left_out.values()))
    return [pass_ for pass_ in (*passes, *costly) if pass_.analyses], left_out


def fit_windows(passes: Sequence[Pass], source: Source[Any]) -> list[Pass]:
    """The passes with windows that the model takes; of two lengths only one if they become one."""
    fitting: list[Pass] = []
    for pass_ in passes:
        if pass_.window is not None:
            pass_ = replace(pass_, window=min(pass_.window, source.max_tokens))
        before = [(p.corpus, p.window, p.cut, p.watch) for p in fitting]
        own = (pass_.corpus, pass_.window, pass_.cut, pass_.watch)
        if pass_.window is None or own not in before:
            fitting.append(pass_)
    return fitting


def leave_out_lone_layers(
    passes: Sequence[Pass], source: Source[Any], is_explicit: bool
) -> tuple[list[Pass], dict[str, str]]:
    """The passes without analyses that compare layers, where the model has but one; and why."""
    compared = [a for one in passes for a in one.analyses if a.compares_layers]
    if source.n_layers > 1 or not compared:
        return list(passes), {}
    why = (
        f"it compares the heads of different layers, and {source.name} has one layer "
        f"({source.n_heads} heads). Expected two layers or more; choose another model or leave the "
        "analysis out (--only)."
    )
    if is_explicit:
        raise StudyError(f"Analysis {compared[0].name!r} cannot run: {why}")
    left_out = {analysis.name: say_skipped(analysis.name, why) for analysis in compared}
    kept = [
        replace(one, analyses=tuple(a for a in one.analyses if a.name not in left_out))
        for one in passes
    ]
    return [pass_ for pass_ in kept if pass_.analyses], left_out


def plan_kinds(
    passes: Sequence[Pass], model: Any, is_explicit: bool
) -> tuple[list[Pass], dict[str, str]]:
    """The passes with every kind of attention where an encoder-decoder reads targets; and what is
    left out and why.

    `model` says whether it has a decoder and, if that can be observed, the `parts` of the whole.
    Elsewhere the encoder alone is measured, and nothing across.
    """
    planned: list[Pass] = []
    left_out: dict[str, str] = {}
    for pass_ in passes:
        if model.has_decoder:
            _refuse_mixed_targets(pass_.corpus)
        is_plain = pass_.watch is Watch.ATTENTION
        if is_plain and Annotation.TARGETS in pass_.corpus.provides and model.parts:
            kinds = {k: tuple(_list_able(pass_, k, n, left_out)) for k, n in model.parts.items()}
            planned.append(replace(pass_, by_kind=kinds))
            continue
        across = [a for a in pass_.analyses if a.watches is Watch.CROSS_ATTENTION]
        if across and is_explicit:
            raise StudyError(
                f"Analysis {across[0].name!r} measures attention from a decoder to its encoder, "
                f"which {model.name} does not have or does not expose. {model.why_no_decoder} "
                "Expected an encoder-decoder; choose another model or leave the analysis out."
            )
        if model.has_decoder and is_plain:
            left_out |= {a.name: f"Skipped {a.name!r}: no decoder is measured." for a in across}
            left_out |= _say_encoder_alone(pass_, model)
        kept = tuple(a for a in pass_.analyses if a not in across)
        planned += [replace(pass_, analyses=kept)] if kept else []
    return planned, left_out


def _refuse_mixed_targets(corpus: Corpus) -> None:
    """An error if `text_pair` is a target in one file and a second paragraph in another."""
    if getattr(corpus, "mixes_targets", False):
        raise StudyError(
            f"Some files of {corpus.name} have targets (text_pair) and others have none. Expected "
            "targets in all files or in none, as an encoder-decoder is measured with its decoder "
            "or without it; pass the files in separate runs."
        )


def _list_able(
    pass_: Pass, kind: AttentionKind, part: Any, left_out: dict[str, str]
) -> Iterator[Analysis]:
    """The analyses that can measure a kind of attention; why others cannot is noted."""
    is_cross = kind is AttentionKind.CROSS
    for analysis in pass_.analyses:
        if analysis.watches is Watch.CROSS_ATTENTION:
            if is_cross:
                yield analysis
        elif is_cross and not analysis.measures_cross:
            left_out[f"{analysis.name} ({kind})"] = (
                f"Analysis {analysis.name!r} is left out of {kind} attention: it measures "
                "attention among the tokens of one text."
            )
        elif analysis.compares_layers and part.n_layers == 1:
            left_out[f"{analysis.name} ({kind})"] = (
                f"Analysis {analysis.name!r} is left out of {kind} attention: it compares the "
                "heads of different layers, and there is one."
            )
        else:
            yield analysis


def _say_encoder_alone(pass_: Pass, model: Any) -> dict[str, str]:
    """Why the decoder is not measured on a corpus."""
    alone = f"{pass_.corpus.name}: only the encoder of {model.name} is measured"
    if Annotation.TARGETS in pass_.corpus.provides:
        return {NO_TARGETS: f"{alone}. {model.why_no_decoder}"}
    if pass_.role is CorpusRole.TEXT:
        reason = (
            f"{alone} because its decoder has nothing to write. Expected targets: --text "
            "FILE.jsonl, its examples with text and text_pair."
        )
        return {NO_TARGETS: reason}
    names = ", ".join(analysis.name for analysis in pass_.analyses)
    return {f"{NO_TARGETS} ({pass_.key})": f"{alone} by {names}: its sentences have no targets."}


def leave_out_many_heads(passes: Sequence[Pass], source: Source[Any]) -> dict[str, str]:
    """Of analyses that compare only some heads of a large model, how many."""
    left_out: dict[str, str] = {}
    compared: list[Any] = [a for p in passes for a in p.analyses if a.compares_layers]
    for analysis in compared:
        n_heads = source.n_heads
        n_compared = heads_per_layer(n_heads, source.n_layers, analysis.max_heads)
        if n_compared < n_heads:
            left_out[analysis.name] = (
                f"{analysis.name!r} compares {n_compared} of the {n_heads} heads of each layer, "
                f"evenly spread: --max-heads {analysis.max_heads} in all. Raise it to compare more."
            )
    return left_out


def refuse_single_model(passes: Sequence[Pass], source: Source[Any]) -> None:
    """An error for an analysis of two models where one was given."""
    for analysis in (analysis for pass_ in passes for analysis in pass_.analyses):
        if analysis.watches is Watch.MODEL_PAIR and source.emits is not Watch.MODEL_PAIR:
            raise StudyError(
                f"Analysis {analysis.name!r} compares two models, and only {source.name} was "
                "given. Expected two; run `headscope distance MODEL_A MODEL_B --text FILE`."
            )


def plan_untrained(passes: Sequence[Pass], n_draws: int) -> list[Pass]:
    """The passes to repeat with untrained models: all that watch attention."""
    watched = [pass_ for pass_ in passes if not pass_.watch.is_costly]
    if not watched:
        raise StudyError(
            "--null has nothing to compare: no analysis of this run measures attention. Expected "
            "one, such as those of --text FILE; add it, or leave --null out."
        )
    return [
        replace(pass_, key=f"untrained-{draw}-{pass_.key}", repeats=pass_.key, draw=draw)
        for draw in range(1, n_draws + 1)
        for pass_ in watched
    ]


def describe_study(
    source: Source[Any],
    passes: Sequence[Pass],
    samples: Mapping[str, Sample],
    options: RunOptions,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Everything about a run that is known before it starts."""
    analyses: list[Any] = [analysis for pass_ in passes for analysis in pass_.analyses]
    return {
        **begin_manifest(source.describe(), asdict(options), left_out),
        "passes": {p.key: p.describe(samples[p.repeats or p.key]) for p in passes},
        "analyses": {analysis.name: asdict(analysis) for analysis in analyses},
    }


def say_skipped(name: str, error: str) -> str:
    """That an analysis is left out, with what an error says is wrong."""
    return f"Skipped {name!r}: {first_part(error)}"


def tell_left_out(left_out: Mapping[str, str]) -> None:
    """Say what is not measured, and why."""
    for reason in left_out.values():
        log.warning("%s", name_parameters(reason))


def _list_passes(
    corpora: Sequence[tuple[CorpusRole, Corpus]], max_tokens: int | None, coref_window: str
) -> Iterator[Pass]:
    """A pass for each corpus, named by its role, and where a role has several its place among them.

    Documents are read in windows of two lengths, unless the user said how long; or truncated to
    the paper's length, as the first pass.
    """
    n_of_role = Counter(role for role, _ in corpora)
    seen: Counter[CorpusRole] = Counter()
    for role, corpus in corpora:
        seen[role] += 1
        key = str(role) if n_of_role[role] == 1 else f"{role}-{seen[role]}"
        if role is not CorpusRole.COREF:
            yield Pass(key, role, corpus)
            continue
        if coref_window != "split":
            window = max_tokens or COREF_WINDOWS[0]
            yield Pass(f"{key}-truncated", role, corpus, window=window, cut="truncate")
        if coref_window == "truncate":
            continue
        if max_tokens is None:
            for window in COREF_WINDOWS:
                yield Pass(f"{key}-{window}", role, corpus, window=window)
        else:
            yield Pass(key, role, corpus, window=max_tokens)


def _say_missing(analysis: Analysis) -> str:
    for annotation, reason in MISSING.items():
        if annotation in analysis.needs:
            return f"Skipped {analysis.name!r}: {reason}."
    needs = " and ".join(sorted(analysis.needs))
    return f"Skipped {analysis.name!r}: no corpus with {needs} was given."
