"""What stands where in the report."""

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from headscope.data.table import Tables
from headscope.registry import load_presentations
from headscope.view.presentation import (
    ALL_HEADS,
    ANTECEDENTS,
    IMPORTANCE,
    MAP,
    PAIR,
    SURFACE,
    SYNTAX,
    Presentation,
    Section,
)
from headscope.view.specs import Figure, PageTable
from headscope.view.table import TextTable

__all__ = ["FilledSection", "as_script", "fill_sections"]

CLAIMS = Section(
    "claims",
    "Claims",
    "What the paper found in BERT-base, tested on this model. A claim holds if the whole 95 % "
    "interval passes the threshold. It is undecided if the interval includes the threshold, or if "
    "there is none. Thresholds that are not the paper's are in brackets.",
)
EXAMPLES = Section(
    "examples",
    "Examples",
    "Notable heads on their best and worst examples; click one to open it. Lines run from the "
    "attending word (left) to the attended word (right). Darker lines carry more attention. Red: "
    "what the head should find. Hover over a word to see only its lines.",
)
HEADS = Section("heads", "Heads", "Every head has a card with all that was measured about it.")
READING = Section("reading", "How to read this", "What the numbers mean, and what they do not.")
METHOD = Section(
    "method",
    "How it was measured",
    "The model, the data and the options. The tables behind every number are in tables/, in the "
    "folder of this file.",
)
MANY_CHARACTERS = 100_000  # from here on JSON is compressed, which the page undoes

OF_ANALYSES = (SURFACE, IMPORTANCE, SYNTAX, ANTECEDENTS, ALL_HEADS, MAP)


@dataclass(frozen=True)
class FilledSection:
    """A part of the report with what this run has for it."""

    section: Section
    figures: Sequence[tuple[Figure, Markup]] = ()  # with the chart as JSON for a script
    tables: Sequence[TextTable] = ()
    missing: Sequence[tuple[str, str, str]] = ()  # title, options that measure it, or why it cannot


def fill_sections(tables: Tables, left_out: Mapping[str, str]) -> list[FilledSection]:
    """Every part of the report with its figures and tables, and what is missing from it.

    `left_out` are the analyses that the run was to do and could not, with the reason.
    """
    shown: Mapping[str, Presentation] = load_presentations()
    of_plug_ins = dict.fromkeys(p.section for p in shown.values() if p.section not in OF_ANALYSES)
    filled = [_fill(s, shown, tables, left_out) for s in (*OF_ANALYSES, *of_plug_ins)]
    parts = [s for s in filled if s.figures or s.tables]
    if any(part.section == PAIR for part in parts):  # two models: no heads of one, no claims
        return [*parts, FilledSection(READING), FilledSection(METHOD)]
    absent = [m for s in filled if s not in parts and s.section in OF_ANALYSES for m in s.missing]
    between = [FilledSection(section) for section in (CLAIMS, EXAMPLES, HEADS, READING)]
    return [*parts, *between, FilledSection(METHOD, missing=absent)]


def as_script(value: Any, is_packed: bool = True) -> Markup:
    """The value as JSON in which no tag and no comment can begin; what is long, compressed.

    A page that cannot undo that asks for it as it is.

    >>> print(as_script({"token": "</script>"}))
    {"token":"\\u003c/script\\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if is_packed and len(text) > MANY_CHARACTERS:
        return Markup(b64encode(zlib.compress(text.encode(), level=9)).decode())
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _fill(
    section: Section, shown: Mapping[str, Presentation], tables: Tables, left_out: Mapping[str, str]
) -> FilledSection:
    of_section = {name: p for name, p in shown.items() if p.section == section}
    figures = [(name, figure) for name, p in of_section.items() for figure in p.specs(Figure)]
    drawn, built, missing = [], [], []
    # Those that share a line come after the wide ones.
    for name, figure in sorted(figures, key=lambda item: item[1].in_line):
        if figure.missing(tables):
            reason = left_out.get(name) or figure.explain_empty(tables)
            missing.append((figure.title, figure.made_by, reason))
        else:
            drawn.append((figure, as_script(figure.draw(tables).to_dict(validate=False))))
    for part in (part for p in of_section.values() for part in p.specs(PageTable)):
        page_tables = part.make(tables)
        built += page_tables
        missing += [(part.title, part.made_by, "")] * (not page_tables and bool(part.made_by))
    return FilledSection(section, drawn, built, list(dict.fromkeys(missing)))
