"""What is shown of attention to the previous, the same and the next token (section 3.1)."""

from collections.abc import Callable

import pandas as pd

from headscope.data.depth import count_layers
from headscope.data.table import Tables, rows_where
from headscope.view.answer import (
    OPEN,
    Answer,
    AnswerMaker,
    answer_by_heads,
    note_rough,
    say_none,
    write_percent,
)
from headscope.view.behaviour import Behaviour, Kind, Threshold
from headscope.view.card import FactMaker, share_facts
from headscope.view.claim import (
    CAUSAL,
    Claim,
    Outcome,
    Passing,
    fill_exact,
    judge_count,
    list_heads,
    name_head,
    note_open,
    passing,
    place_heads,
    top_row,
)
from headscope.view.figure import COLOURS, Chart, Figure
from headscope.view.heads_grid import grid_figure
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import SHARE, percent, row_estimate
from headscope.view.presentation import SURFACE, Presentation

__all__ = ["PRESENTATION"]

TARGETS = {"previous": "previous token", "self": "itself", "next": "next token"}
PANELS = {"previous": "to the previous token", "self": "to itself", "next": "to the next token"}
KIND = Kind("a neighbour or itself", COLOURS[0], "circle")
THRESHOLD = Threshold("position", 0.5, "Threshold for calling a head positional.")
LITTLE, MOST = 0.1, 0.5
ANSWERED = {  # and how much it says about a model
    "previous": ("the previous token", 0.98),
    "next": ("the next token", 0.9),
    "self": ("the token itself", 0.6),
}


def _to(table: pd.DataFrame, target: str) -> pd.DataFrame:
    return rows_where(table, target=target)


def _behaviour(name: str, target: str, at: str, short: str, also: str) -> Behaviour:
    return Behaviour(
        name,
        f"looks at {at} ({{}})",
        KIND,
        THRESHOLD,
        "position",
        lambda table: _to(table, target).rename(columns={"weight": "share"}),
        ranking=target,
        short=short,
        also=also,
    )


def answer_position(tables: Tables) -> list[Answer]:
    """The heads that look at a neighbour or at the token itself; or what comes nearest."""
    table = fill_exact(tables["position"])
    found = []
    for target, (at, weight) in ANSWERED.items():
        heads = passing(_to(table, target), MOST)
        if len(heads.sure):
            does, do = f"looks at {at}", f"look at {at}"
            found.append(answer_by_heads(heads, does, do, weight, "position", "weight"))
    if found or table.empty:
        return found
    top = top_row(table, "weight")
    head = name_head(top)
    heads = passing(table, MOST)
    none = say_none("puts over half of its attention on a neighbour or the token itself", heads)
    text = (
        f"{none}; the closest is {head} with {write_percent(top['weight'])} on "
        f"{ANSWERED[top['target']][0]}{note_rough(row_estimate(top, 'weight'))}."
    )
    detail = f"{head} {SHARE.row(top, 'weight')}."
    return [Answer(text, OPEN if len(heads.open) else 0.3, detail, (head,), "position")]


def draw_position(tables: Tables) -> Chart:
    """One panel a target, of those that tokens can see."""
    table = tables["position"]
    dots = LayerDots(value="weight", title="share of attention", split="target", words=PANELS)
    return dots.draw(table[table.groupby("target")["weight"].transform("max") > 0])


def check_self(tables: Tables) -> Outcome:
    """Most heads look little at the token itself."""
    own = _to(fill_exact(tables["position"]), "self")
    found, n_heads = passing(own, LITTLE, is_above=False), len(own)
    top = top_row(own, "weight")
    shows = (
        f"{len(found.sure)} of {n_heads} heads put under 10 % on the token itself; the most is "
        f"{SHARE.row(top, 'weight')}, by head {name_head(top)}.{note_open(found, '10 %')}"
    )
    return judge_count(len(found.sure), len(found.open), n_heads // 2 + 1, shows)


def check_early(tables: Tables) -> Outcome:
    """Of the heads that look at a neighbour, more are in the lower half."""
    table = tables["position"]
    is_neighbour = table["target"].isin(["previous", "next"])
    sure, is_open = passing(fill_exact(table)[is_neighbour], MOST)
    sure, is_open = (part.drop_duplicates(["layer", "head"]) for part in (sure, is_open))
    is_known = is_open.set_index(["layer", "head"]).index.isin(
        sure.set_index(["layer", "head"]).index
    )
    found = Passing(sure, is_open[~is_known])
    return place_heads(found, count_layers(table), "put over half on a neighbour")


def check_neighbour(tables: Tables, target: str) -> Outcome:
    """Some heads look at the previous or the next token, where the model can."""
    rows = _to(fill_exact(tables["position"]), target)
    if target == "next" and rows["weight"].max() == 0:
        return Outcome("not measured", f"{CAUSAL} no token can attend to the next one.")
    found = passing(rows, MOST)
    unsure = note_open(found, "50 %")
    n_sure, share = len(found.sure), percent(len(found.sure) / len(rows))
    shows = (
        f"{n_sure} of {len(rows)} heads ({share} %) put over half on the {target} token: "
        f"{list_heads(found.sure)}.{unsure}"
    )
    if not n_sure:
        top = list_heads(rows.nlargest(1, "weight"))
        shows = f"No head clearly does; the highest is {top} on the {target} token.{unsure}"
    return judge_count(n_sure, len(found.open), 1, shows)


def _claim(name: str, says: str, paper: str, check: Callable[[Tables], Outcome]) -> Claim:
    return Claim(name, "3.1", says, paper, ("position",), "--text FILE", check, "position")


def _grid(target: str, content: str) -> Figure:
    to = f"the {target} token"
    return grid_figure(f"heads-{target}", "position", lambda t: _to(t, target), to, content)


FIGURES = (
    Figure(
        name="position",
        title="Attention to neighbours",
        caption=(
            "One panel each for the previous token, the token itself and the next one (which a "
            "decoder cannot see). " + how_to_read("share of attention that goes there")
        ),
        needs=("position",),
        made_by="--text FILE",
        draw_tables=draw_position,
        paper="Figure 2",
        has_content=lambda tables: bool((tables["position"]["weight"] > 0).any()),
    ),
    _grid("previous", "attention to previous tokens"),
    _grid("next", "attention to next tokens (a decoder has none)"),
)
CLAIMS = (
    _claim(
        "little-attention-to-itself",
        "Most heads put little attention (here: under 10 %) on the token itself.",
        '"most heads put little attention on the current token"',
        check_self,
    ),
    _claim(
        "previous-token-heads",
        "Some heads put over half of their attention on the previous token.",
        '"four attention heads (in layers 2, 4, 7, and 8) on average put >50% of their attention '
        'on the previous token"',
        lambda tables: check_neighbour(tables, "previous"),
    ),
    _claim(
        "next-token-heads",
        "Some heads put over half of their attention on the next token.",
        '"five attention heads (in layers 1, 2, 2, 3, and 6) put >50% of their attention on the '
        'next token"',
        lambda tables: check_neighbour(tables, "next"),
    ),
    _claim(
        "neighbour-heads-are-early",
        "Heads that put over half on the previous or next token are mostly in the lower half of "
        "the layers.",
        '"especially in earlier layers of the network"; 7 of the 9 heads are in layers 1-6 of 12',
        check_early,
    ),
)
PRESENTATION = Presentation(
    section=SURFACE,
    figures=FIGURES,
    claims=CLAIMS,
    answers=(AnswerMaker(("position",), answer_position),),
    facts=(FactMaker(("position",), lambda t: share_facts("position", t["position"], TARGETS)),),
    behaviours=(
        _behaviour("previous token", "previous", "the previous token", "prev", "before left"),
        _behaviour("next token", "next", "the next token", "next", "after right following"),
        _behaviour("same token", "self", "the token itself", "self", "itself own current"),
    ),
)
