"""What a run shows of every claim of the paper."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headscope.data.table import Tables, split_kinds
from headscope.registry import is_built_in, load_presentations
from headscope.view.judge import all_of
from headscope.view.numbers import name_specials
from headscope.view.presentation import list_specs
from headscope.view.specs import Claim, Outcome, Verdict

__all__ = ["Finding", "added_claims", "check_claims", "count_verdicts", "list_claims", "sum_up"]

CORPUS_LABELS = ("treebank", "corpus")
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
    draws = [_check_all(part) for part in _split_draws(untrained or {})]
    judged = zip(list_claims(), _check_all(part), strict=True)
    return [
        Finding(
            claim,
            outcome.verdict,
            prefix * (outcome.verdict != "not measured")
            + name_specials(outcome.shows, model, kind),
            () if claim.is_of_data else tuple(draw[number].verdict for draw in draws),
        )
        for number, (claim, outcome) in enumerate(judged)
    ]


def added_claims() -> frozenset[str]:
    """The names of claims that are not the paper's: those of plug-ins."""
    added = (shown for name, shown in load_presentations().items() if not is_built_in(name))
    return frozenset(claim.name for shown in added for claim in shown.specs(Claim))


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """How many claims have each verdict, in words.

    >>> count_verdicts(["holds", "undecided", "not measured"])
    '1 of 2 hold, 0 do not hold, 1 undecided, 1 not measured'
    """
    counts = Counter(verdicts)
    n_measured = counts.total() - counts["not measured"]
    return (
        f"{counts['holds']} of {n_measured} hold, {counts['does not hold']} do not hold, "
        f"{counts['undecided']} undecided, {counts['not measured']} not measured"
    )


def sum_up(findings: Sequence[Finding]) -> str:
    """How many claims hold, how many do not, and how many hold without training too; those of
    plug-ins apart."""
    names = added_claims()
    added = [finding.verdict for finding in findings if finding.claim.name in names]
    others = f" Claims of plug-ins: {count_verdicts(added)}." * bool(added)
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


def _check_all(tables: Tables) -> list[Outcome]:
    return [_check(claim, tables) for claim in list_claims()]


def _check(claim: Claim, tables: Tables) -> Outcome:
    missing = claim.missing(tables)
    if missing:
        lacks = f"The run has no table {missing[0]}. {claim.unless}".strip()
        how = f"{lacks} Measure with: headscope analyze MODEL {claim.made_by}"
        return Outcome("not measured", how)
    # Only what the claim needs: a corpus that other tables tell apart is none of its concern.
    return _check_each_corpus(claim.check, {name: tables[name] for name in claim.needs})


def _check_each_corpus(check: Callable[[Tables], Outcome], tables: Tables) -> Outcome:
    """The check on every treebank or corpus of the tables: it must hold in all of them."""
    outcomes = {name: check(part) for name, part in _split_corpora(tables)}
    if len(outcomes) == 1:
        return next(iter(outcomes.values()))
    shows = " ".join(f"{name}: {o.verdict}. {o.shows}" for name, o in outcomes.items())
    known = [o.verdict for o in outcomes.values() if o.verdict != "not measured"]
    return Outcome(all_of(known), shows)


def _split_draws(untrained: Tables) -> Iterator[Tables]:
    draws = sorted({int(draw) for table in untrained.values() for draw in table["draw"]})
    for draw in draws:
        yield {name: table[table["draw"] == draw] for name, table in untrained.items()}


def _split_corpora(tables: Tables) -> Iterator[tuple[str, Tables]]:
    columns = {
        name: table[label].astype(str)
        for name, table in tables.items()
        for label in [label for label in CORPUS_LABELS if label in table][:1]
    }
    corpora = dict.fromkeys(corpus for column in columns.values() for corpus in column)
    if not corpora:
        yield "", tables
    for corpus in corpora:
        part = {name: tables[name][column == corpus] for name, column in columns.items()}
        yield corpus, {**tables, **part}
