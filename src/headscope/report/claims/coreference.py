"""Section 4.3 and Table 2: a head that resolves coreference."""

from collections.abc import Callable

import pandas as pd

from headscope.report.cells import percent
from headscope.report.claims.claim import Claim, Estimate, Outcome, Tables, judge, name_head
from headscope.report.claims.parts import in_each_corpus, in_paper_window

__all__ = ["CLAIMS"]

CLEARLY, NEAR = 0.1, 0.05
TYPES = ("pronoun", "proper", "nominal")
NONE = "The corpus has no mentions with an antecedent."


def check_head_match(tables: Tables) -> Outcome:
    """The best head is more than 10 points above the same head word."""
    row = _overall(tables)
    if row is None:
        return Outcome(None, NONE)
    found = Estimate.from_row(row)
    more = 100 * (found.value - row["head_match"])
    shows = (
        f"{_window(tables)}Head {name_head(row)} finds {found} of the antecedents (held out "
        f"{percent(row['heldout_accuracy'])} %), {more:+.1f} points on the nearest mention with "
        f"the same head word ({percent(row['head_match'])} %)."
    )
    return judge(found, row["head_match"] + CLEARLY, shows)


def check_rules(tables: Tables) -> Outcome:
    """The best head is at most 5 points below the rules, held out."""
    row = _overall(tables)
    if row is None:
        return Outcome(None, NONE)
    names = ("heldout_difference", "difference_low", "difference_high")
    gap = Estimate(*(float(row[name]) for name in names))
    caveat = " The interval includes -5 points: this may be chance." * gap.straddles(-NEAR)
    shows = (
        f"{_window(tables)}The best head has {percent(row['heldout_accuracy'])} % held out, the "
        f"rules {percent(row['rule_based'])} %: {gap.as_points()}.{caveat}"
    )
    return Outcome(gap.value > -NEAR, shows)


def check_nominal(tables: Tables) -> Outcome:
    """The best head does best on nominal mentions, beside the rules."""
    row = _overall(tables)
    if row is None:
        return Outcome(None, NONE)
    table, best = (in_paper_window(tables[n]) for n in ("coreference", "coreference-best"))
    same = (table["layer"] == row["layer"]) & (table["head"] == row["head"])
    same &= (table["direction"] == row["direction"]) & (table["candidates"] == "mentions")
    own = table[same & (table["system"] == "head")].set_index("mention_type")["accuracy"]
    rules = best[best["candidates"] == "mentions"].set_index("mention_type")["rule_based"]
    gaps = (own - rules).reindex(list(TYPES)).dropna()
    if "nominal" not in gaps or len(gaps) < 2:
        return Outcome(None, "The corpus has no nominal mentions, or no others.")
    said = [
        f"{kind} {percent(own[kind])} % against {percent(rules[kind])} % ({100 * gap:+.1f} points)"
        for kind, gap in gaps.items()
    ]
    shows = f"{_window(tables)}Head {name_head(row)} and the rules: {', '.join(said)}."
    return Outcome(gaps.idxmax() == "nominal", shows)


def _overall(tables: Tables) -> pd.Series | None:
    """The best head among all mentions, in the paper's window."""
    best = in_paper_window(tables["coreference-best"])
    rows = best[(best["mention_type"] == "all") & (best["candidates"] == "mentions")]
    return rows.iloc[0] if len(rows) and rows.iloc[0]["count"] > 0 else None


def _window(tables: Tables) -> str:
    best = in_paper_window(tables["coreference-best"])
    return f"(Windows of {best['window'].iloc[0]} tokens.) " if "window" in best else ""


def _claim(
    name: str,
    says: str,
    paper: str,
    check: Callable[[Tables], Outcome],
    needs: tuple[str, ...] = ("coreference-best",),
) -> Claim:
    checked = in_each_corpus(check)
    return Claim(name, "4.3", says, paper, needs, "--coref FILE", checked, "coreference-best")


CLAIMS = (
    _claim(
        "coreference-beats-head-match",
        "A head finds antecedents over 10 points better than the same head word does.",
        "65 % by head 5-4, head match 52 %",
        check_head_match,
    ),
    _claim(
        "coreference-is-near-rules",
        "A head finds antecedents nearly as well as the rules (here: at most 5 points less, held "
        "out).",
        "65 % by head 5-4, rules 69 %",
        check_rules,
    ),
    _claim(
        "coreference-is-good-with-nominals",
        "The head is particularly good with nominal mentions (here: beside the rules it does best "
        "there).",
        "58 % against 60 %; pronouns 64 against 70, names 73 against 77",
        check_nominal,
        needs=("coreference", "coreference-best"),
    ),
)
