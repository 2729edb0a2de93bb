"""What is to be done: which analyses run over which corpus, decided before any work."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from logging import getLogger
from typing import TYPE_CHECKING, Any

from headscope.contracts import Analysis, AttentionSource, Corpus, LayersAnalysis, RankedAnalysis
from headscope.errors import StudyError
from headscope.registry import ANALYSES

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "Options",
    "Pass",
    "build_analysis",
    "compares_layers",
    "describe_analyses",
    "fit_windows",
    "leave_out_lone_heads",
    "plan_passes",
    "plan_repeats",
    "ranks_examples",
    "watched_by",
]

log = getLogger("headscope")

TEXT_TOKENS = 128  # the paper's segments
COREF_WINDOWS = (128, 512)  # the paper's, and longer ones beside it
LEAST_TOKENS = 8
FITTING = {
    "dependencies": " Read a corpus that does: --treebank FILE.conllu.",
    "coreference": " Read a corpus that does: --coref FILE.conllu (or .conll, or a folder).",
    "pronoun choices": " Read a corpus that does: --coref gap-validation.tsv.",
}


@dataclass(frozen=True)
class Options:
    """How a study is run. What changes the numbers is here; where and how fast is not."""

    limit: int | None = None
    seed: int = 0
    replicates: int = 200
    max_tokens: int | None = None
    batch_tokens: int = 2048
    shard_examples: int = 1024

    def __post_init__(self) -> None:
        _require(self.limit is None or self.limit > 0, "--limit", self.limit, "at least 1")
        _require(0 <= self.seed < 2**63, "--seed", self.seed, "between 0 and 2^63")
        _require(self.replicates >= 0, "--replicates", self.replicates, "0 or more")
        _require(self.batch_tokens > 0, "--batch-tokens", self.batch_tokens, "at least 1")
        _require(self.shard_examples > 0, "--shard-examples", self.shard_examples, "at least 1")
        is_enough = self.max_tokens is None or self.max_tokens >= LEAST_TOKENS
        _require(is_enough, "--max-tokens", self.max_tokens, f"at least {LEAST_TOKENS}")

    def tokens_for(self, role: str, source: AttentionSource, window: int | None = None) -> int:
        """The longest input of a pass: the paper's 128 for text, else what the model takes."""
        if self.max_tokens is None:
            usual = TEXT_TOKENS if role == "text" else window
            return min(usual, source.max_tokens) if usual else source.max_tokens
        if self.max_tokens > source.max_tokens:
            raise StudyError(
                f"--max-tokens {self.max_tokens} is too long: {source.name} takes at most "
                f"{source.max_tokens} tokens. Pass --max-tokens {source.max_tokens} or less."
            )
        return self.max_tokens


@dataclass(frozen=True)
class Pass:
    """One reading of one corpus, for all analyses that it serves."""

    key: str  # names the pass in the run's folder
    role: str
    corpus: Corpus
    analyses: tuple[Analysis, ...]
    repeats: str | None = None  # the key of the pass that this one repeats, and how:
    variant: str | None = None  # with the "null" model, or with the best heads "combined"; a pass
    # of the variant "gradients" or "ablation" repeats none: it watches those, not attention
    window: int | None = None  # the tokens of a window that documents are cut into


def build_analysis(name: str, options: Mapping[str, Any] | None = None) -> Analysis:
    """The analysis of a registered name, with its own options."""
    analysis: Analysis = ANALYSES.find(name).load()(**(options or {}))
    return analysis


def watched_by(analysis: Analysis) -> str:
    """What an analysis is shown: "attention"; or, if it is named, what costs more: "gradients" of
    the loss, or the changes that "ablation" of heads makes."""
    return str(getattr(analysis, "watches", "attention"))


def compares_layers(analysis: Analysis | LayersAnalysis) -> "TypeIs[LayersAnalysis]":
    """Whether an analysis wants all layers at once."""
    return hasattr(analysis, "measure_layers")


def ranks_examples(analysis: Analysis | LayersAnalysis) -> "TypeIs[RankedAnalysis]":
    """Whether an analysis says which examples show a head best."""
    return hasattr(analysis, "rank")


def describe_analyses(analyses: Collection[Analysis]) -> dict[str, dict[str, Any]]:
    """Each analysis and its options, as the manifest keeps them and `build_analysis` takes them."""
    return {analysis.name: asdict(analysis) for analysis in analyses}  # type: ignore[call-overload]


def plan_passes(
    analyses: Collection[Analysis],
    corpora: Sequence[tuple[str, Corpus]],
    is_explicit: bool,
    max_tokens: int | None = None,
) -> tuple[list[Pass], dict[str, str]]:
    """Which analyses run over which corpus (given with its role), and what is left out and why.

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
    apart = [
        replace(passes[0], key=f"{kind}-{passes[0].key}", variant=kind, analyses=(analysis,))
        for analysis in analyses
        if (kind := watched_by(analysis)) != "attention"
    ]
    for analysis in analyses:
        if watched_by(analysis) != "attention":
            continue
        able = [i for i, one in enumerate(passes) if analysis.needs <= one.corpus.provides]
        for i in able if analysis.needs else able[:1]:
            passes[i] = replace(passes[i], analyses=(*passes[i].analyses, analysis))
        if not able:
            left_out[analysis.name] = _reason(analysis, corpora)
    if is_explicit and left_out:
        raise StudyError(" ".join(left_out.values()))
    return [one for one in (*passes, *apart) if one.analyses], left_out


def fit_windows(passes: Sequence[Pass], source: AttentionSource) -> list[Pass]:
    """The passes with windows that the model takes; of two lengths only one if they become one."""
    fitting: list[Pass] = []
    for one in passes:
        if one.window is not None:
            one = replace(one, window=min(one.window, source.max_tokens))
        before = [(other.corpus, other.window, other.variant) for other in fitting]
        if one.window is None or (one.corpus, one.window, one.variant) not in before:
            fitting.append(one)
    return fitting


def leave_out_lone_heads(
    passes: Sequence[Pass], source: AttentionSource, is_explicit: bool
) -> tuple[list[Pass], dict[str, str]]:
    """The passes without analyses that compare layers, where the model has but one; and why."""
    apart = [a for one in passes for a in one.analyses if compares_layers(a)]
    if source.n_layers > 1 or not apart:
        return list(passes), {}
    left_out = {
        analysis.name: f"Analysis {analysis.name!r} compares the heads of different layers, and "
        f"{source.name} has one layer ({source.n_heads} heads). Expected two layers or more; "
        "choose another model or leave the analysis out (--only)."
        for analysis in apart
    }
    if is_explicit:
        raise StudyError(" ".join(left_out.values()))
    for reason in left_out.values():
        log.info("Left out: %s", reason)
    kept = [
        replace(one, analyses=tuple(a for a in one.analyses if a.name not in left_out))
        for one in passes
    ]
    return [one for one in kept if one.analyses], left_out


def plan_repeats(passes: Sequence[Pass], variant: str) -> list[Pass]:
    """The passes over treebanks to repeat: for dependencies with the "null" model, for trees with
    the best heads "combined"."""
    wanted = {"null": "dependency", "combined": "trees"}[variant]
    repeats = []
    for one in passes:
        names = {analysis.name for analysis in one.analyses}
        if {wanted, "dependency"} <= names:
            found = tuple(analysis for analysis in one.analyses if analysis.name == wanted)
            key = f"{variant}-{one.key}"
            repeats.append(Pass(key, one.role, one.corpus, found, one.key, variant))
    if not repeats:
        raise StudyError(
            f"There is no pass to repeat ({variant}). Expected the analyses 'dependency' and "
            f"{wanted!r} over a treebank: give one with --treebank FILE.conllu, or leave the "
            "option out."
        )
    return repeats


def _list_passes(corpora: Sequence[tuple[str, Corpus]], max_tokens: int | None) -> Iterator[Pass]:
    """A pass for each corpus, named by its role, and where a role has several its place among them.

    Documents are read in windows of two lengths, unless the user said how long.
    """
    n_of_role = Counter(role for role, _ in corpora)
    seen: Counter[str] = Counter()
    for role, corpus in corpora:
        seen[role] += 1
        key = role if n_of_role[role] == 1 else f"{role}-{seen[role]}"
        if role == "coref" and max_tokens is None:
            for window in COREF_WINDOWS:
                yield Pass(f"{key}-{window}", role, corpus, (), window=window)
        else:
            yield Pass(key, role, corpus, (), window=max_tokens if role == "coref" else None)


def _reason(analysis: Analysis, corpora: Sequence[tuple[str, Corpus]]) -> str:
    read = " and ".join(f"{corpus.name} ({role})" for role, corpus in corpora)
    needs = " and ".join(sorted(analysis.needs))
    fitting = next((told for need, told in FITTING.items() if need in analysis.needs), "")
    return f"Analysis {analysis.name!r} needs {needs}, which {read} does not have.{fitting}"


def _require(is_met: bool, option: str, value: object, expected: str) -> None:
    if not is_met:
        raise StudyError(f"{option} {value} cannot be used. Expected {expected}.")
