"""What stands where in the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from headscope.registry import FIGURES
from headscope.report.figures.figure import Figure, Tables
from headscope.report.page.scripts import as_script
from headscope.report.paper_tables import PaperTable, paper_tables

__all__ = ["Drawn", "Missing", "Section", "build_sections"]


@dataclass(frozen=True)
class Part:
    """A section before anything is measured: its words, and which figures and tables it has."""

    id: str
    title: str
    intro: str
    figures: tuple[str, ...] = ()
    table: str = ""  # the paper's table, by the beginning of its name


@dataclass(frozen=True)
class Drawn:
    """A figure of this run: its words, and the chart as JSON that may stand in a script."""

    name: str
    title: str
    caption: str
    paper: str
    spec: Markup


@dataclass(frozen=True)
class Missing:
    """What this run could have and has not, and the options that measure it; or why it cannot."""

    title: str
    made_by: str
    reason: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report with what this run has for it."""

    id: str
    title: str
    intro: str
    figures: Sequence[Drawn] = ()
    tables: Sequence[PaperTable] = ()
    missing: Sequence[Missing] = ()


PARTS = (
    Part(
        "claims",
        "Claims",
        "What the paper found in BERT-base, and whether it is true of this model. A claim holds if "
        "the number itself says so; where its interval reaches across the line, that is said.",
    ),
    Part(
        "surface",
        "Surface patterns",
        "Where attention goes before any linguistics: to the neighbours, to special tokens, or "
        "everywhere (sections 3.1 to 3.3). Click a dot to open the head's card.",
        (
            "position",
            "special-tokens",
            "special-tokens-from-sep",
            "entropy",
            "heads-previous",
            "heads-next",
            "heads-sep",
            "heads-entropy",
        ),
    ),
    Part(
        "matter",
        "Does it matter?",
        "Attention that can be changed without consequence is a no-op. The gradient of the loss "
        "and the ablation of heads tell which attention the model depends on (section 3.2).",
        ("gradient", "ablation", "heads-ablation"),
    ),
    Part(
        "syntax",
        "Syntax",
        "Single heads as parsers without training: the most attended word is the prediction. The "
        "baseline is the best fixed offset. Held out: chosen on one half of the sentences, scored "
        "on the other (section 4.2).",
        ("dependency-best", "heads-relations"),
        "table-1",
    ),
    Part(
        "coreference",
        "Coreference",
        "Which earlier mention does a mention attend to most? Beside it three baselines that need "
        "no model (section 4.3).",
        ("coreference-best",),
        "table-2",
    ),
    Part(
        "probes",
        "All heads together",
        "Small classifiers over the attention of all heads: how much syntax is there in all, "
        "trained on one treebank and scored on another (section 5).",
        ("probes", "probe-curve", "probe-weights"),
        "table-3",
    ),
    Part(
        "map",
        "Map of heads",
        "Heads that attend alike lie close together: distances are Jensen-Shannon divergences "
        "between their attention (section 6).",
        ("heads-map", "heads-map-layers", "distance-matrix", "dendrogram"),
    ),
    Part(
        "examples",
        "Examples",
        "Notable heads at the examples where they do best and worst. Lines run from the attending "
        "word on the left to the attended one on the right; the darker, the more attention. What "
        "the head should find is red. Hover a word to see its lines alone.",
    ),
    Part("heads", "Heads", "All that was measured of every head, on a card each."),
    Part(
        "method",
        "How it was measured",
        "What was run on what. The tables behind every number are beside this file, in tables/.",
    ),
)
TABLES = {
    "table-1": Missing("Table 1, the best head of each relation", "--treebank FILE.conllu"),
    "table-2": Missing("Table 2, antecedents", "--coref FILE.conllu"),
    "table-3": Missing("Table 3, probes", "--treebank TEST.conllu --train TRAIN.conllu"),
}


def build_sections(tables: Tables, left_out: Mapping[str, str]) -> list[Section]:
    """Every part of the report with its figures and tables, and what is missing from it.

    `left_out` are the analyses that the run was to do and could not, with the reason.
    """
    in_paper = paper_tables(tables)
    return [_build(part, tables, in_paper, left_out) for part in _with_plug_ins(PARTS)]


def _build(
    part: Part, tables: Tables, in_paper: Sequence[PaperTable], left_out: Mapping[str, str]
) -> Section:
    figures: Mapping[str, Figure] = {name: FIGURES.find(name).load() for name in part.figures}
    missing = {
        Missing(figure.title, figure.made_by, left_out.get(absent[0], "")): None
        for figure in figures.values()
        if (absent := figure.missing(tables))
    }
    own = [table for table in in_paper if part.table and table.name.startswith(part.table)]
    if part.table and not own:
        missing[TABLES[part.table]] = None
    drawn = [_draw(figure, tables) for figure in figures.values() if not figure.missing(tables)]
    return Section(part.id, part.title, part.intro, drawn, own, list(missing))


def _draw(figure: Figure, tables: Tables) -> Drawn:
    chart: Any = figure.draw(tables)
    spec = as_script(chart.to_dict())
    return Drawn(figure.name, figure.title, figure.caption, figure.paper, spec)


def _with_plug_ins(parts: Sequence[Part]) -> list[Part]:
    """Figures of other packages have a section of their own, before the examples."""
    placed = {name for part in parts for name in part.figures}
    others = tuple(name for name in FIGURES.entries() if name not in placed)
    if not others:
        return list(parts)
    place = next(i for i, part in enumerate(parts) if part.id == "examples")
    more = Part("more", "More figures", "From other packages.", others)
    return [*parts[:place], more, *parts[place:]]
