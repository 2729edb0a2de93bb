"""The claims on the page: grouped by the parts of the report, and counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headscope.registry import load_presentations
from headscope.view.claim import Finding, Verdict

__all__ = ["ClaimGroup", "CountedClaims", "count_claims"]

VERDICTS: tuple[Verdict, ...] = ("holds", "undecided", "does not hold", "not measured")
Counts = list[tuple[Verdict, int]]


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
    """All claims: how many have each verdict, here and in the untrained model, and the groups."""

    counts: Counts
    untrained: Counts  # none where no untrained model was measured
    groups: tuple[ClaimGroup, ...]


def count_claims(findings: Sequence[Finding]) -> CountedClaims:
    """The findings by the sections of their analyses, in the order of the registry."""
    titles = {
        claim.name: shown.section.title
        for shown in load_presentations().values()
        for claim in shown.claims
    }
    by_title: dict[str, list[Finding]] = {}
    for finding in findings:
        by_title.setdefault(titles[finding.claim.name], []).append(finding)
    groups = (ClaimGroup(title, tuple(own)) for title, own in by_title.items())
    untrained = [_most_common(f.untrained) for f in findings if f.untrained]
    own = _count(finding.verdict for finding in findings)
    return CountedClaims(own, _count(untrained) if untrained else [], tuple(groups))


def _most_common(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several draws of an untrained model the verdict that most of them have."""
    return Counter(verdicts).most_common(1)[0][0]


def _count(verdicts: Iterable[Verdict]) -> Counts:
    found = Counter(verdicts)
    return [(verdict, found[verdict]) for verdict in VERDICTS]
