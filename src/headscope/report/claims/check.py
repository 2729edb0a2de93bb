"""All claims of the paper, checked on the tables of a run."""

from headscope.report.claims import (
    clusters,
    coreference,
    entropy,
    gradients,
    position,
    probes,
    special_tokens,
    syntax,
)
from headscope.report.claims.claim import Claim, Finding, Tables

__all__ = ["CLAIMS", "check_claims"]

CLAIMS: tuple[Claim, ...] = (
    *position.CLAIMS,
    *special_tokens.CLAIMS,
    *gradients.CLAIMS,
    *entropy.CLAIMS,
    *syntax.CLAIMS,
    *coreference.CLAIMS,
    *probes.CLAIMS,
    *clusters.CLAIMS,
)


def check_claims(tables: Tables) -> list[Finding]:
    """What the run shows of every claim, in the order of the paper."""
    return [_check(claim, tables) for claim in CLAIMS]


def _check(claim: Claim, tables: Tables) -> Finding:
    missing = claim.missing(tables)
    if missing:
        lacks = f"The run has no table {missing[0]}. {claim.unless}".strip()
        shows = f"{lacks} Measure with: headscope analyze MODEL {claim.made_by}"
        return Finding(claim, "not measured", shows)
    # Only what the claim needs: a corpus that other tables tell apart is none of its concern.
    outcome = claim.check({name: tables[name] for name in claim.needs})
    return Finding(claim, outcome.verdict, outcome.shows)
