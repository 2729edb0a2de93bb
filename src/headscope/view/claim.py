"""What a run shows of every claim of the paper."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headscope.data.table import Tables, split_kinds
from headscope.registry import is_built_in, load_presentations
from headscope.view.judge import Claim, Verdict, all_of
from headscope.view.numbers import name_specials
from headscope.view.presentation import list_specs

__all__ = [
    "Finding", "added_claims", "check_claims", "count_claims", "count_verdicts", "list_claims",
    "sum_up",
]  # fmt: skip

CORPUS_LABELS = ("treebank", "corpus")
VERDICTS: tuple[Verdict, ...] = ("holds", "undecided", "does not hold", "not measured")
ALSO_UNTRAINED = "It holds for the untrained model too, so it says nothing about training."
ASK_UNTRAINED = "To see which hold without training too, add --null 1."


@dataclass(frozen=True)
class Finding:
    """A claim and what this model shows of it."""

    claim: Claim
    verdict: Verdict
    shows: str  # in a sentence with numbers; or why it was not measured, and what measures it
    untrained: tuple[Verdict, ...] = ()  # of the same model untrained, by draw; none of data

    @property
    def holds_untrained(self) -> bool:
        """Whether it holds in most draws of the untrained model."""
        return 2 * self.untrained.count("holds") > len(self.untrained)

    @property
    def untrained_in_short(self) -> str:
        """The verdict on the untrained model; of several draws, how many of them hold."""
        n_holding, n_draws = self.untrained.count("holds"), len(self.untrained)
        if not n_draws:
            return "-"
        return self.untrained[0] if n_draws == 1 else f"holds in {n_holding} of {n_draws} draws"

    @property
    def note(self) -> str:
        """What must be known of a claim that holds without training too; "" of others."""
        return ALSO_UNTRAINED * (self.verdict == "holds" and self.holds_untrained)


def list_claims() -> list[Claim]:
    """All claims, by the sections of the paper."""
    return sorted(list_specs(Claim), key=lambda claim: claim.section)


def check_claims(
    tables: Tables, untrained: Tables | None = None, model: Mapping[str, Any] | None = None
) -> list[Finding]:
    """What the run shows of every claim, in the order of the paper.

    `untrained` are the tables of the same model without training, with the column `draw`. The paper
    is about an encoder, so of an encoder-decoder the encoder is judged. `model` is what the
    manifest says of the model.
    """
    kind, part = next(iter(split_kinds(tables).items()))
    prefix = f"{kind.capitalize()}: " * bool(kind)
    drawn = untrained or {}
    draws = [
        {name: table[table["draw"] == draw] for name, table in drawn.items()}
        for draw in sorted({int(draw) for table in drawn.values() for draw in table["draw"]})
    ]
    findings = []
    for claim in list_claims():
        verdict, shows = _check(claim, part)
        if verdict != "not measured":
            shows = prefix + shows
        of_draws = () if claim.is_of_data else tuple(_check(claim, draw)[0] for draw in draws)
        findings.append(Finding(claim, verdict, name_specials(shows, model, kind), of_draws))
    return findings


def added_claims() -> frozenset[str]:
    """The names of claims that are not the paper's: those of plug-ins and of other papers."""
    return claims_of_plug_ins() | {c.name for c in list_claims() if not c.section[:1].isdigit()}


def claims_of_plug_ins() -> frozenset[str]:
    """The names of claims that come from other packages."""
    added = (shown for name, shown in load_presentations().items() if not is_built_in(name))
    return frozenset(claim.name for shown in added for claim in shown.specs(Claim))


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """How many claims have each verdict, in words.

    >>> count_verdicts(["holds", "undecided", "not measured"])
    '1 of 2 holds, 0 do not hold, 1 undecided, 1 not measured'
    """
    counts = Counter(verdicts)
    n_measured = counts.total() - counts["not measured"]
    hold = "holds" if counts["holds"] == 1 else "hold"
    do = "does" if counts["does not hold"] == 1 else "do"
    return (
        f"{counts['holds']} of {n_measured} {hold}, {counts['does not hold']} {do} not hold, "
        f"{counts['undecided']} undecided, {counts['not measured']} not measured"
    )


def sum_up(findings: Sequence[Finding]) -> str:
    """How many claims hold, how many do not, and how many hold without training too; those of
    other papers and of plug-ins apart."""
    names, of_plug_ins = added_claims(), claims_of_plug_ins()
    others = ""
    for whose, some in (("other papers", names - of_plug_ins), ("plug-ins", of_plug_ins)):
        added = [finding.verdict for finding in findings if finding.claim.name in some]
        if {*added} - {"not measured"}:
            others += f" Claims of {whose}: {count_verdicts(added)}."
    of_paper = [finding for finding in findings if finding.claim.name not in names]
    if all(finding.verdict == "not measured" for finding in of_paper):
        return f"None of the paper's claims was measured.{others}"
    summary = f"The paper's claims: {count_verdicts(finding.verdict for finding in of_paper)}."
    n_draws = max(len(finding.untrained) for finding in of_paper)
    if not n_draws:
        return f"{summary} {ASK_UNTRAINED}{others}"
    n_untrained = sum(bool(finding.note) for finding in of_paper)
    drawn = "the untrained model" if n_draws == 1 else f"most of {n_draws} untrained models"
    also = "holds" if n_untrained == 1 else "hold"
    return f"{summary} Of those that hold, {n_untrained} {also} for {drawn} too.{others}"


def count_claims(findings: Sequence[Finding]) -> dict[str, Any]:
    """How many of the paper's claims have each verdict, in this model (`counts`) and in the
    untrained one (none where it was not measured); and all claims in groups by section."""
    titles = {
        claim.name: shown.section.title
        for shown in load_presentations().values()
        for claim in shown.specs(Claim)
    }
    by_title: dict[str, list[Finding]] = {}
    for finding in findings:
        by_title.setdefault(titles[finding.claim.name], []).append(finding)
    added = added_claims()
    of_paper = [finding for finding in findings if finding.claim.name not in added]
    # Of several draws of an untrained model the verdict that most of them have.
    untrained = [Counter(f.untrained).most_common(1)[0][0] for f in of_paper if f.untrained]
    return {
        "counts": _count(finding.verdict for finding in of_paper),
        "untrained": _count(untrained) if untrained else [],
        "groups": [
            {
                "title": title,
                "counts": _count(finding.verdict for finding in group),
                "measured": [f for f in group if f.verdict != "not measured"],
                "missing": [f for f in group if f.verdict == "not measured"],
            }
            for title, group in by_title.items()
        ],
    }


def _count(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, int]]:
    counts = Counter(verdicts)
    return [(verdict, counts[verdict]) for verdict in VERDICTS]


def _check(claim: Claim, tables: Tables) -> tuple[Verdict, str]:
    """The verdict and what it rests on: a claim must hold in every treebank or corpus."""
    missing = claim.missing(tables)
    if missing:
        lacks = f"The run has no table {missing[0]}. {claim.unless}".strip()
        how = f"{lacks} Measure with: headscope analyze MODEL {claim.made_by}"
        return "not measured", how
    # Only what the claim needs: a corpus that other tables tell apart is none of its concern.
    needed = {name: tables[name] for name in claim.needs}
    outcomes = {name: claim.check(part) for name, part in _split_corpora(needed)}
    if len(outcomes) == 1:
        outcome = next(iter(outcomes.values()))
        return outcome.verdict, outcome.shows
    shows = " ".join(f"{name}: {o.verdict}. {o.shows}" for name, o in outcomes.items())
    known = [o.verdict for o in outcomes.values() if o.verdict != "not measured"]
    return all_of(known), shows


def _split_corpora(tables: Tables) -> Iterator[tuple[str, Tables]]:
    labels = {
        name: table[label].astype(str)
        for name, table in tables.items()
        for label in [label for label in CORPUS_LABELS if label in table][:1]
    }
    corpora = dict.fromkeys(corpus for column in labels.values() for corpus in column)
    if not corpora:
        yield "", tables
    for corpus in corpora:
        part = {name: tables[name][column == corpus] for name, column in labels.items()}
        yield corpus, {**tables, **part}
