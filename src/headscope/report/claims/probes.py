"""Section 5 and Table 3: how much syntax all heads know together."""

from collections.abc import Callable, Sequence
from functools import partial

from headscope.report.claims.claim import Claim, Estimate, Outcome, Tables
from headscope.report.probes import PAPER_TABLE_3

__all__ = ["CLAIMS"]

DECENT, SUBSTANTIAL = 0.7, 0.05
WORDS, ATTENTION, DISTANCES = "attention-and-words", "attention-only", "distances-and-words"
MADE_BY = "--train FILE --treebank FILE --vectors FILE"
UNTRAINED, RIGHT = "random-init-attention-and-words", "right-branching"


def check_above(tables: Tables, probe: str, others: Sequence[str], margin: float = 0.0) -> Outcome:
    """Whether a probe finds more than each of the others, by a margin."""
    found = _scores(tables)
    missing = [name for name in (probe, *others) if name not in found]
    if missing:
        return _not_trained(missing)
    top = found[probe]
    best = max((found[name] for name in others), key=lambda estimate: estimate.value)
    said = ", ".join(f"{name} {found[name]}" for name in (probe, *others))
    is_open = top.low <= best.high + margin and best.low + margin <= top.high
    caveat = " The intervals overlap there: this may be chance." * is_open
    return Outcome(top.value > best.value + margin, f"UAS: {said}.{caveat}")


def check_decent(tables: Tables) -> Outcome:
    """Attention and words reach a UAS of over 70."""
    found = _scores(tables)
    if WORDS not in found:
        return _not_trained([WORDS])
    caveat = " The interval includes 70.0 %: this may be chance." * found[WORDS].straddles(DECENT)
    return Outcome(found[WORDS].value > DECENT, f"Its UAS is {found[WORDS]}.{caveat}")


def _not_trained(probes: Sequence[str]) -> Outcome:
    tail = f"Train with: headscope analyze MODEL {MADE_BY}"
    return Outcome(None, f"The run has no probe {' and no '.join(probes)}. {tail}")


def _scores(tables: Tables) -> dict[str, Estimate]:
    rows = tables["probes"].set_index("probe")
    return {str(name): Estimate.from_row(row, "uas") for name, row in rows.iterrows()}


def _claim(
    name: str, says: str, probes: Sequence[str], check: Callable[[Tables], Outcome]
) -> Claim:
    paper = ", ".join(f"{probe} {PAPER_TABLE_3[probe]}" for probe in probes)
    return Claim(name, "5", says, f"UAS: {paper}", ("probes",), MADE_BY, check, "probes")


def _compare(name: str, says: str, probe: str, *others: str, margin: float = 0.0) -> Claim:
    check = partial(check_above, probe=probe, others=others, margin=margin)
    return _claim(name, says, (probe, *others), check)


CLAIMS = (
    _compare(
        "probe-beats-baselines",
        "All heads together, weighted by the words, parse substantially better than the baselines "
        "(here: by over 5 points).",
        WORDS,
        RIGHT,
        DISTANCES,
        UNTRAINED,
        margin=SUBSTANTIAL,
    ),
    _claim(
        "probe-parses-well",
        "All heads together, weighted by the words, reach a decent UAS (here: over 70).",
        (WORDS,),
        check_decent,
    ),
    _compare(
        "words-help-the-probe",
        "A probe of attention gains from knowing the words.",
        WORDS,
        ATTENTION,
    ),
    _compare(
        "attention-alone-beats-distances",
        "Attention alone parses better than distances and words do.",
        ATTENTION,
        DISTANCES,
    ),
    _compare(
        "syntax-comes-from-training",
        "Without training, attention and words are worse than distances and words: what the probe "
        "finds was learned.",
        DISTANCES,
        UNTRAINED,
    ),
)
