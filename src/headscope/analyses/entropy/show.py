"""What is shown of how broadly heads attend (section 3.3)."""

from collections.abc import Callable
from math import log, nan
from typing import Any

import pandas as pd

from headscope.data.depth import count_layers
from headscope.data.table import Tables
from headscope.view.answer import OPEN, Answer, AnswerMaker, say_more, say_none, write_percent
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, Facts, Part, add_rank, by_head, read_rank
from headscope.view.claim import (
    CAUSAL,
    Claim,
    Outcome,
    beside_untrained,
    fill_exact,
    judge,
    judge_count,
    list_heads,
    name_head,
    note_open,
    passing,
    place_heads,
    top_row,
)
from headscope.view.figure import COLOURS, Chart, Figure, number
from headscope.view.heads_grid import HOW_TO_READ, HeadsGrid
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import POINTS, SHARE, Form, percent, row_estimate
from headscope.view.presentation import SURFACE, Presentation

__all__ = ["BROAD", "PRESENTATION", "breadth"]

PANELS = {"all": "from all tokens", "cls": "from the opening token"}
EVEN = log(128)  # nats of even attention over the paper's segments
THRESHOLD = Threshold(
    "broad",
    3.8,
    "Threshold for calling a head broad: entropy in nats at 128 tokens.",
    most=EVEN,
    per=EVEN,
)
BROAD = THRESHOLD.as_share({})  # of even attention: 3.8 nats at 128 tokens
CLOSE = 0.1  # of the entropy of even attention: about half a nat at 128 tokens
NO_CLS = "This model's input has no opening token ([CLS])."
ONE_KEY = f"{CAUSAL} the opening token attends only to itself, so its breadth is not defined."
NATS = Form(".2f", unit=" nats")


def breadth(table: pd.DataFrame, rows: str = "all") -> pd.DataFrame:
    """Entropy as a share of that of even attention; none where a row sees one token only."""
    table = table[table["rows"] == rows]
    return table.assign(low=table["share_low"], high=table["share_high"])


def _shares(tables: Tables, rows: str) -> pd.DataFrame:
    shares = breadth(tables["entropy"], rows)
    return fill_exact(shares[shares["uniform"] > 0], "share")


def _layer_rows(tables: Tables, rows: str) -> pd.DataFrame:
    """Means over the heads of each layer, of one kind of row, as shares of even attention."""
    table = fill_exact(tables["entropy-layers"], "share", "share_low", "share_high")
    return table[(table["rows"] == rows) & table["share"].notna()]


def _explain_no_cls(tables: Tables) -> str:
    """Why nothing can be said of the opening token."""
    return ONE_KEY if (tables["entropy"]["rows"] == "cls").any() else NO_CLS


def draw_entropy(tables: Tables) -> Chart:
    """All tokens in one panel, [CLS] in the other; even attention as a dashed line."""
    dots = LayerDots(
        value="nats",
        title="entropy of attention (nats)",
        split="rows",
        words=PANELS,
        reference="uniform",
        reference_title="even attention",
    )
    return dots.draw(tables["entropy"])


def draw_entropy_grid(tables: Tables) -> Chart:
    """The entropy over all rows."""
    table = tables["entropy"]
    even = [number("uniform", "even attention")]
    grid = HeadsGrid("nats", "entropy (nats)", said=even, carried=["uniform"])
    return grid.draw(table[table["rows"] == "all"])


def entropy_facts(tables: Tables) -> Facts:
    """How broadly it attends, beside even attention."""
    table = tables["entropy"]
    ranked = add_rank(table[table["uniform"] > 0], "nats", "rows")
    n_heads = len(table[table["rows"] == "all"])

    def phrase(row: Any) -> Part:
        source = "from the opening token" if row.rows == "cls" else ""
        note = f"{SHARE.number(row.share)} of even attention, {row.uniform:.2f}"
        nats = NATS.row(row, "nats")
        return Part(source, nats, row.share, nan, read_rank(row), n_heads, note)

    return by_head(ranked, "entropy", phrase)


def answer_breadth(tables: Tables) -> list[Answer]:
    """How many heads attend broadly, and the broadest."""
    shares = _shares(tables, "all")
    shares = shares[shares["share"].notna()]
    if shares.empty:
        return []
    found = passing(shares, BROAD, "share")
    n_found = len(found.sure)
    top = top_row(found.sure if n_found else shares, "share")
    head, attend = name_head(top), "attends" if n_found == 1 else "attend"
    text = (
        f"{n_found} of {len(shares)} heads {attend} broadly, to most of the text rather than to a "
        f"few tokens{': ' if n_found == 1 else ', most of all '}{head}{say_more(found)}."
    )
    if not n_found:
        none = say_none("attends broadly, to most of the text", found)
        text = f"{none}; the broadest is {head} ({write_percent(top['share'])})."
    detail = (
        f"Broad: over {write_percent(BROAD)} of the entropy of even attention. {head} has "
        f"{SHARE.row(top, 'share')}."
    )
    return [Answer(text, 0.65 if n_found else OPEN, detail, (head,), "entropy")]


def check_broad(tables: Tables) -> Outcome:
    """Some heads attend very broadly."""
    shares = _shares(tables, "all")
    if shares.empty:
        return Outcome("not measured", "No token attends to any other token.")
    found = passing(shares, BROAD, "share")
    unsure = note_open(found, "this line")
    shows = (
        f"{len(found.sure)} of {len(shares)} heads have over {percent(BROAD)} % of the entropy of "
        f"even attention: {list_heads(found.sure, 'share')}.{unsure}"
    )
    if found.sure.empty:
        top = list_heads(shares.nlargest(1, "share"), "share")
        shows = (
            f"No head clearly has over {percent(BROAD)} % of the entropy of even attention; the "
            f"broadest is {top}.{unsure}"
        )
    return judge_count(len(found.sure), len(found.open), 1, shows)


def check_broad_is_low(tables: Tables) -> Outcome:
    """Broad heads are mostly in the lower half."""
    shares = _shares(tables, "all")
    if shares.empty:
        return Outcome("not measured", "No token attends to any other token.")
    found = passing(shares, BROAD, "share")
    return place_heads(found, count_layers(tables["entropy"]), "attend broadly")


def check_first_layer(tables: Tables) -> Outcome:
    """A larger share of the first layer's heads is broad than of the others'."""
    shares = _shares(tables, "all")
    lowest = shares["layer"].min()
    first, above = shares[shares["layer"] == lowest], shares[shares["layer"] > lowest]
    if first.empty or above.empty:
        return Outcome("not measured", "There is no other layer to compare the first with.")
    here, there = (passing(part, BROAD, "share") for part in (first, above))
    n_here, n_there = (len(part.sure) for part in (here, there))
    shows = (
        f"In layer {lowest}, {n_here} of {len(first)} heads attend broadly (over "
        f"{percent(BROAD)} % of even attention); above it, {n_there} of {len(above)} "
        f"({percent(n_there / len(above))} %); the broadest head of layer {lowest} is "
        f"{list_heads(first.nlargest(1, 'share'), 'share')}."
        f"{note_open(passing(shares, BROAD, 'share'), 'this line')}"
    )
    if n_here / len(first) > (n_there + len(there.open)) / len(above):
        return Outcome("holds", shows)
    is_possible = (n_here + len(here.open)) / len(first) > n_there / len(above)
    return Outcome("undecided" if is_possible else "does not hold", shows)


def check_cls_last(tables: Tables) -> Outcome:
    """In the last layer [CLS] attends broadly."""
    rows = _layer_rows(tables, "cls")
    if rows.empty:
        return Outcome("not measured", _explain_no_cls(tables))
    last = rows[rows["layer"] == rows["layer"].max()].iloc[0]
    found = row_estimate(last, "share", "share_low", "share_high")
    shows = (
        f"From [CLS], the heads of the last layer have {NATS.row(last, 'nats')} on average, "
        f"{SHARE.estimate(found)} of even attention.{beside_untrained(last)}"
    )
    return judge(found, BROAD, shows)


def check_cls_close(tables: Tables) -> Outcome:
    """In most other layers [CLS] attends as broadly as the others."""
    rows = _layer_rows(tables, "cls - all")
    if rows.empty:
        return Outcome("not measured", _explain_no_cls(tables))
    others = rows[rows["layer"] < rows["layer"].max()]
    if others.empty:
        return Outcome("not measured", "The model has only one layer.")
    low, high = others["share_low"].fillna(-1.0), others["share_high"].fillna(1.0)
    n_close = int(((low > -CLOSE) & (high < CLOSE)).sum())
    n_open = int(((low < CLOSE) & (high > -CLOSE)).sum()) - n_close
    far = others.loc[others["share"].abs().idxmax()]
    gap = POINTS.estimate(row_estimate(far, "share", "share_low", "share_high"))
    unsure = f" Undecided: {n_open} more." * bool(n_open)
    shows = (
        f"In {n_close} of the {len(others)} layers below the last, the mean entropy from [CLS] "
        f"is within 10 points (in % of even attention) of that from all tokens; the largest "
        f"gap is {gap}, in layer {int(far['layer'])}.{unsure}"
    )
    return judge_count(n_close, n_open, len(others) // 2 + 1, shows)


def _claim(
    name: str,
    says: str,
    paper: str,
    check: Callable[[Tables], Outcome],
    needs: tuple[str, ...] = ("entropy",),
) -> Claim:
    return Claim(name, "3.3", says, paper, needs, "--text FILE", check, "entropy")


FIGURES = (
    Figure(
        name="entropy",
        title="Broad and narrow attention",
        caption=(
            f"{how_to_read('entropy of its attention, in nats')} 0: all attention on one token. "
            f"Dashed line: attention spread evenly over all visible tokens. One panel: attention "
            f"from all tokens. The other: from the opening token, if there is one."
        ),
        needs=("entropy",),
        made_by="--text FILE",
        draw_tables=draw_entropy,
        paper="Figure 4",
    ),
    Figure(
        name="heads-entropy",
        title="How broadly each head attends",
        caption=f"{HOW_TO_READ} The darker, the broader its attention (entropy, in nats).",
        needs=("entropy",),
        made_by="--text FILE",
        draw_tables=draw_entropy_grid,
        in_line=3,
    ),
)
CLAIMS = (
    _claim(
        "broad-heads",
        "Some heads attend very broadly (here: over 78 % of the entropy of even attention, 3.8 "
        "nats at 128 tokens).",
        '"some attention heads, especially in lower layers, have very broad attention"; 3.8 nats '
        "is not in the paper's text: it is the line for broad heads in the code of Figure 6",
        check_broad,
    ),
    _claim(
        "broad-heads-are-low",
        "Heads that attend very broadly are mostly in the lower half of the layers.",
        '"especially in lower layers"',
        check_broad_is_low,
    ),
    _claim(
        "first-layer-is-broad",
        "The first layer has heads with particularly high entropy (here: the share of heads with "
        "over 78 % of the entropy of even attention is larger than in the layers above).",
        '"In the first layer there are particularly high-entropy heads" (caption of Figure 4)',
        check_first_layer,
    ),
    _claim(
        "cls-is-broad-in-the-last-layer",
        "In the last layer [CLS] attends very broadly (here: over 78 % of even attention).",
        '"the last layer has a high entropy from [CLS] of 3.89 nats, indicating very broad '
        'attention": about 80 % of even attention over 128 tokens',
        check_cls_last,
        ("entropy-layers", "entropy"),
    ),
    _claim(
        "cls-is-like-others-below",
        "In most other layers the entropy from [CLS] is close to that from all tokens (here: "
        "within a tenth of even attention).",
        '"the average entropies from [CLS] for most layers are very close"',
        check_cls_close,
        ("entropy-layers", "entropy"),
    ),
)
BREADTH = Behaviour(
    "everything, broadly",
    "attends broadly ({} of even attention)",
    Kind("everything, broadly", COLOURS[4], "triangle-up"),
    THRESHOLD,
    "entropy",
    breadth,
    ranking="broad",
    is_background=True,
    short="broad",
    also="uniform even bag of words wide entropy",
)
PRESENTATION = Presentation(
    section=SURFACE,
    figures=FIGURES,
    claims=CLAIMS,
    answers=(AnswerMaker(("entropy",), answer_breadth),),
    facts=(FactMaker(("entropy",), entropy_facts),),
    behaviours=(BREADTH,),
)
