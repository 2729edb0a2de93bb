"""A pass over a corpus, and the rules that say why an analysis cannot run in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headscope.contracts import Analysis, Annotation, AttentionKind, CorpusRole, Watch
from headscope.corpora.needles import Needles
from headscope.engine.open_models import Models
from headscope.errors import StudyError, first_part
from headscope.models.copying import CopyingSource, explain_no_copying
from headscope.models.language import build_task
from headscope.models.loaded import LoadedModel
from headscope.options import CUTS

__all__ = ["RULES", "Pass", "Reason", "Reasons", "has_kinds"]

Reasons = dict[str, str]  # by what is left out


@dataclass(frozen=True)
class Pass:
    """One reading of one corpus, for all analyses that it serves."""

    key: str  # names the pass in the run's folder
    role: CorpusRole
    corpus: Any  # a BaseCorpus; None in a worker of a cluster
    analyses: tuple[Analysis, ...] = ()
    watch: Watch = Watch.ATTENTION  # what the analyses are shown
    window: int | None = None  # the tokens of a window that documents are cut into
    cut: str = CUTS[0]  # or "truncate": only the first window of a document is read
    max_tokens: int = 0  # of an input, known when the model is
    repeats: str | None = None  # the key of the pass that this one repeats
    draw: int | None = None  # which of several untrained models is measured, from 1
    # What each kind of attention is measured by, where an encoder-decoder reads targets.
    by_kind: Mapping[AttentionKind, tuple[Analysis, ...]] = field(default_factory=dict)

    @property
    def needs_head(self) -> bool:
        """Whether the language-modelling head of the model is needed, if it has one."""
        return self.watch.is_costly or any(analysis.predicts for analysis in self.analyses)


class Reason(NamedTuple):
    """Why an analysis cannot run in a pass: in words, and as an error if nothing else can run."""

    text: str
    error: str
    is_refused: bool = False  # it is an error wherever the analysis was asked for by name


# Why an analysis cannot run in a pass; None: it can.
Rule = Callable[[Any, Pass, Models], Reason | None]


def _need_two_models_or_layers(analysis: Any, pass_: Pass, models: Models) -> Reason | None:
    source = models.source
    if analysis.watches is Watch.MODEL_PAIR and source.emits is not Watch.MODEL_PAIR:
        raise StudyError(
            f"Analysis {analysis.name!r} compares two models, and only {models.name} was "
            "given. Expected two; run `headscope distance MODEL_A MODEL_B --text FILE`."
        )
    if source.n_layers > 1 or not analysis.compares_layers:
        return None
    why = (
        f"it compares the heads of different layers, and {source.name} has one layer "
        f"({source.n_heads} heads). Expected two layers or more; choose another model or leave the "
        "analysis out (--only)."
    )
    error = f"Analysis {analysis.name!r} cannot run: {why}"
    return Reason(f"Skipped {analysis.name!r}: {first_part(why)}", error, is_refused=True)


def _need_gradients_or_heads(analysis: Any, pass_: Pass, models: Models) -> Reason | None:
    """A loss has gradients; altered heads show in it too or, without it, in hidden states."""
    if not pass_.watch.is_costly:
        return None
    why = models.why_no_head
    if pass_.watch is Watch.CHANGE or models.with_head:
        model = models.with_head or models.source
        if not isinstance(model, LoadedModel):
            raise StudyError(
                f"The heads of {model.name} cannot be altered: it is not a transformers model. "
                "Expected one; leave the analysis out."
            )
        why = model.explain_fixed()
    head = models.with_head if pass_.watch is Watch.HEAD_SETS else None
    if not why and head is not None and build_task(head).objective != "next":
        why = (
            f"{models.name} does not predict the next token. Expected a language model that reads "
            "from left to right; choose one, or leave the analysis out."
        )
    if not why and pass_.watch is Watch.COPYING and models.with_head:
        why = explain_no_copying(CopyingSource(build_task(models.with_head)))
        why = why and f"{why}. Expected heads that write straight into the hidden states."
    return Reason(f"Skipped {analysis.name!r}: {first_part(why)}", why) if why else None


def _need_decoder(analysis: Any, pass_: Pass, models: Models) -> Reason | None:
    if models.has_decoder and pass_.corpus.mixes_targets:
        raise StudyError(
            f"Some files of {pass_.corpus.name} have targets (text_pair) and others have none. "
            "Expected targets in all files or in none, as an encoder-decoder is measured with its "
            "decoder or without it; pass the files in separate runs."
        )
    if analysis.watches is not Watch.CROSS_ATTENTION or has_kinds(pass_, models):
        return None
    # what is across is no concern of other models
    text = f"Skipped {analysis.name!r}: no decoder is measured." if models.has_decoder else ""
    return Reason(
        text,
        f"Analysis {analysis.name!r} measures attention from a decoder to its encoder, "
        f"which {models.name} does not have or does not expose. {models.why_no_decoder} "
        "Expected an encoder-decoder; choose another model or leave the analysis out.",
        is_refused=True,
    )


def _need_room(analysis: Any, pass_: Pass, models: Models) -> Reason | None:
    """Made-up sequences fit into the model, and its vocabulary is large enough for them."""
    source, corpus = models.source, pass_.corpus
    if Annotation.REPEATS not in corpus.provides:
        return None
    if not isinstance(source, LoadedModel):
        why = f"{source.name} is not a transformers model, so it takes no made-up tokens"
        return Reason(f"Skipped {analysis.name!r}: {why}.", f"{why}. Expected one; choose another.")
    (encoding,) = source.encode([next(iter(corpus))], source.max_tokens)
    n_plain, n_words = len(source.encoder.plain_ids), len(encoding.example.words or ())
    if len(encoding) > source.max_tokens:
        why = (
            f"a sequence of repeated tokens has {len(encoding)} tokens, but {source.name} takes at "
            f"most {source.max_tokens}. Expected a shorter one; lower --repeat-tokens."
        )
    elif n_plain < n_words:
        why = (
            f"{source.name} knows {n_plain} tokens that are not special, too few to draw "
            f"{n_words // 2} of them without many repeats. Expected twice as many; lower "
            "--repeat-tokens."
        )
    else:
        return None
    error = f"Analysis {analysis.name!r} cannot run: {why}"
    return Reason(f"Skipped {analysis.name!r}: {why}", error, is_refused=True)


def _need_room_for_needles(analysis: Any, pass_: Pass, models: Models) -> Reason | None:
    """At least one text with a hidden fact is read whole."""
    source, corpus = models.source, pass_.corpus
    if not isinstance(corpus, Needles):
        return None
    encodings = source.encode(list(corpus), pass_.max_tokens)
    if not all(encoding.is_truncated for encoding in encodings):
        return None
    why = (
        f"its made-up inputs of about {corpus.n_tokens:,} tokens are longer than the "
        f"{pass_.max_tokens:,} that are read at once with {source.name}. Expected shorter ones; "
        "lower --haystack."
    )
    error = f"Analysis {analysis.name!r} cannot run: {why}"
    return Reason(f"Skipped {analysis.name!r}: {why}", error)


RULES: Sequence[Rule] = (
    _need_two_models_or_layers, _need_gradients_or_heads, _need_decoder, _need_room,
    _need_room_for_needles,
)  # fmt: skip


def has_kinds(pass_: Pass, models: Models) -> bool:
    """Whether every kind of attention is measured: an encoder-decoder reads targets."""
    has_targets = bool({Annotation.TARGETS, Annotation.REPEATS} & pass_.corpus.provides)
    return pass_.watch is Watch.ATTENTION and has_targets and bool(models.parts)
