"""What stands where in the report, and the claims by part and verdict."""

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from headscope.data.table import Tables
from headscope.registry import load_presentations
from headscope.view.claim import Finding, added_claims
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
from headscope.view.specs import Claim, Figure, PageTable, Verdict
from headscope.view.table import TextTable

__all__ = [
    "ClaimGroup", "CountedClaims", "DrawnFigure", "FilledSection", "Missing", "as_script",
    "count_claims", "fill_sections",
]  # fmt: skip

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

VERDICTS: tuple[Verdict, ...] = ("holds", "undecided", "does not hold", "not measured")
Counts = list[tuple[Verdict, int]]

OF_ANALYSES = (SURFACE, IMPORTANCE, SYNTAX, ANTECEDENTS, ALL_HEADS, MAP)


@dataclass(frozen=True)
class DrawnFigure:
    """A figure of this run, and the chart as JSON that may stand in a script."""

    figure: Figure
    spec: Markup


@dataclass(frozen=True)
class Missing:
    """What this run does not have, and the options that measure it; or why it cannot."""

    title: str
    made_by: str
    reason: str = ""


@dataclass(frozen=True)
class FilledSection:
    """A part of the report with what this run has for it."""

    section: Section
    figures: Sequence[DrawnFigure] = ()
    tables: Sequence[TextTable] = ()
    missing: Sequence[Missing] = ()


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
            missing.append(Missing(figure.title, figure.made_by, left_out.get(name, "")))
        else:
            chart: Any = figure.draw(tables)
            drawn.append(DrawnFigure(figure, as_script(chart.to_dict(validate=False))))
    for part in (part for p in of_section.values() for part in p.specs(PageTable)):
        page_tables = part.make(tables)
        built += page_tables
        missing += [] if page_tables or not part.made_by else [Missing(part.title, part.made_by)]
    return FilledSection(section, drawn, built, list(dict.fromkeys(missing)))


@dataclass(frozen=True)
class ClaimGroup:
    """The claims that belong to one part of the report."""

    title: str
    findings: tuple[Finding, ...]

    @property
    def counts(self) -> Counts:
        """How many have each verdict."""
        return _count(finding.verdict for finding in self.findings)

    @property
    def measured(self) -> list[Finding]:
        """Those that have a verdict."""
        return [finding for finding in self.findings if finding.verdict != "not measured"]

    @property
    def missing(self) -> list[Finding]:
        """Those that were not measured."""
        return [finding for finding in self.findings if finding.verdict == "not measured"]


@dataclass(frozen=True)
class CountedClaims:
    """How many of the paper's claims have each verdict, here and in the untrained model; and all
    claims in groups."""

    counts: Counts
    untrained: Counts  # none where no untrained model was measured
    groups: tuple[ClaimGroup, ...]


def count_claims(findings: Sequence[Finding]) -> CountedClaims:
    """The findings by the sections of their analyses, in the order of the registry."""
    titles = {
        claim.name: shown.section.title
        for shown in load_presentations().values()
        for claim in shown.specs(Claim)
    }
    by_title: dict[str, list[Finding]] = {}
    for finding in findings:
        by_title.setdefault(titles[finding.claim.name], []).append(finding)
    groups = (ClaimGroup(title, tuple(of_paper)) for title, of_paper in by_title.items())
    added = added_claims()
    of_paper = [finding for finding in findings if finding.claim.name not in added]
    untrained = [_most_common(f.untrained) for f in of_paper if f.untrained]
    counts = _count(finding.verdict for finding in of_paper)
    return CountedClaims(counts, _count(untrained) if untrained else [], tuple(groups))


def _most_common(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several draws of an untrained model the verdict that most of them have."""
    return Counter(verdicts).most_common(1)[0][0]


def _count(verdicts: Iterable[Verdict]) -> Counts:
    counts = Counter(verdicts)
    return [(verdict, counts[verdict]) for verdict in VERDICTS]
