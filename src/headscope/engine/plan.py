"""What is to be done: which analyses run over which corpus, decided before any work."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from logging import getLogger
from typing import Any

from headscope.contracts import Analysis, Annotation, Corpus, CorpusRole, Source, Watch
from headscope.engine.measure import heads_a_layer
from headscope.engine.sample import Sample
from headscope.errors import StudyError, name_parameters
from headscope.options import RunOptions
from headscope.runs.manifest import begin_manifest
from headscope.runs.tables import Repeat

__all__ = [
    "Pass",
    "describe_study",
    "fit_windows",
    "leave_out_lone_layers",
    "leave_out_many_heads",
    "plan_passes",
    "plan_second_readings",
    "plan_untrained",
    "refuse_single_model",
    "tell_left_out",
    "tokens_for",
]

log = getLogger("headscope")

TEXT_TOKENS = 128  # the paper's segments
COREF_WINDOWS = (128, 512)  # the paper's, and longer ones beside it
MISSING = {
    Annotation.DEPENDENCIES: "no treebank with dependency trees was given (--treebank FILE.conllu)",
    Annotation.COREFERENCE: "no corpus with coreference was given (--coref FILE.conllu)",
    Annotation.PRONOUN_CHOICES: "no GAP corpus was given (--coref gap-validation.tsv)",
}


@dataclass(frozen=True)
class Pass:
    """One reading of one corpus, for all analyses that it serves."""

    key: str  # names the pass in the run's folder
    role: CorpusRole
    corpus: Corpus
    analyses: tuple[Analysis, ...] = ()
    watch: Watch = Watch.ATTENTION  # what the analyses are shown
    window: int | None = None  # the tokens of a window that documents are cut into
    repeats: str | None = None  # the key of the pass that this one repeats
    repeat: Repeat | None = None

    def describe(self, sample: Sample) -> dict[str, Any]:
        """What the manifest says of the pass."""
        return {
            "corpus": self.corpus.name,
            "role": str(self.role),
            "path": str(getattr(self.corpus, "path", "")),
            "digest": self.corpus.digest(),
            "available": sample.n_available,
            "examples": sample.n_examples,
            "analyses": [analysis.name for analysis in self.analyses],
            "watch": self.watch.value,
            "window": self.window,
            "repeats": self.repeats,
            "repeat": self.repeat.value if self.repeat else None,
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
            f"{source.max_tokens} tokens. Pass --max-tokens {source.max_tokens} or less."
        )
    return max_tokens


def plan_passes(
    analyses: Collection[Analysis],
    corpora: Sequence[tuple[CorpusRole, Corpus]],
    is_explicit: bool,
    max_tokens: int | None = None,
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
    passes = list(_list_passes(corpora, max_tokens))
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
        before = [(other.corpus, other.window, other.watch) for other in fitting]
        if pass_.window is None or (pass_.corpus, pass_.window, pass_.watch) not in before:
            fitting.append(pass_)
    return fitting


def leave_out_lone_layers(
    passes: Sequence[Pass], source: Source[Any], is_explicit: bool
) -> tuple[list[Pass], dict[str, str]]:
    """The passes without analyses that compare layers, where the model has but one; and why."""
    compared = [a for one in passes for a in one.analyses if a.watches.compares_layers]
    if source.n_layers > 1 or not compared:
        return list(passes), {}
    left_out = {
        analysis.name: f"Analysis {analysis.name!r} compares the heads of different layers, and "
        f"{source.name} has one layer ({source.n_heads} heads). Expected two layers or more; "
        "choose another model or leave the analysis out (--only)."
        for analysis in compared
    }
    if is_explicit:
        raise StudyError(" ".join(left_out.values()))
    kept = [
        replace(one, analyses=tuple(a for a in one.analyses if a.name not in left_out))
        for one in passes
    ]
    return [pass_ for pass_ in kept if pass_.analyses], left_out


def leave_out_many_heads(passes: Sequence[Pass], source: Source[Any]) -> dict[str, str]:
    """Of analyses that compare only some heads of a large model, how many."""
    left_out: dict[str, str] = {}
    compared: list[Any] = [a for p in passes for a in p.analyses if a.watches.compares_layers]
    for analysis in compared:
        n_heads, n_compared = source.n_heads, heads_a_layer(source, analysis.max_heads)
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


def plan_untrained(passes: Sequence[Pass]) -> list[Pass]:
    """The passes to repeat with the untrained model, for analyses that put it beside the model."""
    repeats = []
    for pass_ in passes:
        own = tuple(a for a in pass_.analyses if hasattr(a, "add_untrained"))
        if own and pass_.watch is Watch.ATTENTION:
            repeats.append(_repeat(pass_, own, Repeat.UNTRAINED))
    if not repeats:
        raise StudyError(
            "--null has nothing to compare: no analysis of this run puts an untrained model beside "
            "the model. Expected a treebank: add --treebank FILE.conllu, or leave --null out."
        )
    return repeats


def plan_second_readings(passes: Sequence[Pass]) -> list[Pass]:
    """The passes to repeat for analyses that want to know what the first reading gave."""
    repeats = []
    for pass_ in passes:
        for analysis in pass_.analyses:
            wanted: frozenset[str] = getattr(analysis, "repeats_after", frozenset())
            missing = wanted - {other.name for other in pass_.analyses}
            if missing:
                raise StudyError(
                    f"Analysis {analysis.name!r} reads the corpus a second time after "
                    f"{', '.join(sorted(missing))}, which this run leaves out. Expected both; add "
                    f"--only {','.join(sorted(missing))}."
                )
            if wanted:
                repeats.append(_repeat(pass_, (analysis,), Repeat.SECOND_READING))
    return repeats


def describe_study(
    source: Source[Any],
    passes: Sequence[Pass],
    samples: Mapping[str, Sample],
    options: RunOptions,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Everything about a run that is known before it starts."""
    analyses = [analysis for pass_ in passes for analysis in pass_.analyses]
    return {
        **begin_manifest(source.describe(), asdict(options), left_out),
        "passes": {p.key: p.describe(samples[p.repeats or p.key]) for p in passes},
        "analyses": {analysis.name: describe_options(analysis) for analysis in analyses},
    }


def describe_options(analysis: Any) -> dict[str, Any]:
    """The fields of an analysis as the manifest keeps them."""
    return asdict(analysis)


def tell_left_out(left_out: Mapping[str, str]) -> None:
    """Say what is not measured, and why."""
    for reason in left_out.values():
        log.warning("%s", name_parameters(reason))


def _repeat(pass_: Pass, analyses: tuple[Analysis, ...], repeat: Repeat) -> Pass:
    key = f"{repeat.value}-{pass_.key}"
    return replace(pass_, key=key, analyses=analyses, repeats=pass_.key, repeat=repeat)


def _list_passes(
    corpora: Sequence[tuple[CorpusRole, Corpus]], max_tokens: int | None
) -> Iterator[Pass]:
    """A pass for each corpus, named by its role, and where a role has several its place among them.

    Documents are read in windows of two lengths, unless the user said how long.
    """
    n_of_role = Counter(role for role, _ in corpora)
    seen: Counter[CorpusRole] = Counter()
    for role, corpus in corpora:
        seen[role] += 1
        key = str(role) if n_of_role[role] == 1 else f"{role}-{seen[role]}"
        if role is CorpusRole.COREF and max_tokens is None:
            for window in COREF_WINDOWS:
                yield Pass(f"{key}-{window}", role, corpus, window=window)
        else:
            yield Pass(key, role, corpus, window=max_tokens if role is CorpusRole.COREF else None)


def _say_missing(analysis: Analysis) -> str:
    for annotation, reason in MISSING.items():
        if annotation in analysis.needs:
            return f"Skipped {analysis.name!r}: {reason}."
    needs = " and ".join(sorted(analysis.needs))
    return f"Skipped {analysis.name!r}: no corpus with {needs} was given."
