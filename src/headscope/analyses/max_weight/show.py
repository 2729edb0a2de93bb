"""What is shown of the largest weights (section 3.3)."""

from typing import Any

from headscope.analyses.entropy.show import BROAD
from headscope.data.table import Tables, rows_where
from headscope.view.answer import Answer, AnswerMaker, is_wide, note_rough, write_percent
from headscope.view.card import FactMaker, Facts, Part, add_rank, by_head, read_rank
from headscope.view.claim import Claim, Outcome, judge_count, name_head, note_open, passing, top_row
from headscope.view.figure import Figure
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.numbers import SHARE, percent, row_estimate
from headscope.view.presentation import SURFACE, Presentation

__all__ = ["PRESENTATION"]

TYPICALLY = 0.5
GRID = HeadsGrid("weight", "mean largest weight")


def max_weight_facts(tables: Tables) -> Facts:
    """How much goes to the token that gets most."""
    table = tables["max-weight"]

    def phrase(row: Any) -> Part:
        value = f"{SHARE.row(row, 'weight')} on average"
        return Part("", value, row.weight, rank=read_rank(row), n_heads=len(table))

    return by_head(add_rank(table, "weight"), "largest weight of a row", phrase)


def answer_largest(tables: Tables) -> list[Answer]:
    """How much heads put on a single token."""
    table = tables["max-weight"]
    table = table[table["weight"].notna()]
    if table.empty:
        return []
    top = top_row(table, "weight")
    middle = table.sort_values("weight", kind="stable").iloc[len(table) // 2]
    found = row_estimate(top, "weight")
    if is_wide(found) or is_wide(row_estimate(middle, "weight")):
        return []
    head = name_head(top)
    text = (
        f"On average, the median head puts {write_percent(table['weight'].median())} of its "
        f"attention on a single token; the highest, {head}, {write_percent(top['weight'])}"
        f"{note_rough(found)}."
    )
    detail = f"Mean largest weight of a row: {head} {SHARE.row(top, 'weight')}."
    return [Answer(text, 0.35, detail, (head,), "max-weight")]


def check_little(tables: Tables) -> Outcome:
    """Most broad heads put at most 10 % on any token in most of their rows."""
    shares = rows_where(tables["entropy"], rows="all")
    broad = passing(shares, BROAD, "share", "share_low", "share_high").sure[["layer", "head"]]
    if broad.empty:
        none = f"No head clearly has over {percent(BROAD)} % of the entropy of even attention."
        return Outcome("not measured", none)
    rows = broad.merge(tables["max-weight"], on=["layer", "head"])
    rows = rows[rows["flat_rows"].notna()]
    if rows.empty:
        return Outcome(
            "not measured",
            "No token attends to ten tokens or more, so none can get as little as 10 %.",
        )
    rows = rows.assign(low=rows["flat_low"], high=rows["flat_high"])
    found = passing(rows, TYPICALLY, "flat_rows")
    middle = rows.sort_values("flat_rows", kind="stable").iloc[len(rows) // 2]
    shows = (
        f"{len(found.sure)} of the {len(rows)} broad heads have at most 10 % on any token in over "
        f"half of their rows; the median head, {name_head(middle)}, in "
        f"{SHARE.row(middle, 'flat_rows')}.{note_open(found, '50 %')}"
    )
    return judge_count(len(found.sure), len(found.open), len(rows) // 2 + 1, shows)


PRESENTATION = Presentation(
    section=SURFACE,
    figures=(
        Figure(
            name="max-weight",
            title="How much goes to one token",
            caption=f"{HOW_TO_READ} The darker, the more goes to the token that gets most.",
            needs=("max-weight",),
            made_by="--text FILE",
            draw_tables=lambda tables: GRID.draw(tables["max-weight"]),
            in_line=3,
        ),
    ),
    claims=(
        Claim(
            "at-most-a-tenth-on-a-word",
            "3.3",
            "Heads that attend broadly (over 78 % of the entropy of even attention) typically put "
            "at most 10 % on any single token (here: over half of these heads do, in over half of "
            "their rows).",
            '"These high-entropy attention heads typically spend at most 10% of their attention '
            'mass on any single word."',
            ("max-weight", "entropy"),
            "--text FILE",
            check_little,
            "max-weight",
        ),
    ),
    answers=(AnswerMaker(("max-weight",), answer_largest),),
    facts=(FactMaker(("max-weight",), max_weight_facts),),
)
