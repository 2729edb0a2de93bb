"""What is shown of gradients: does the loss depend on attention to a class of tokens? (Figure 3)"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from headscope.analyses.gradient.measure import UPPER
from headscope.analyses.special_tokens.show import PANELS, TARGETS, check_step, find_sink
from headscope.data.depth import count_layers, like_paper, name_layers
from headscope.data.table import Tables
from headscope.view.answer import OPEN, Answer, AnswerMaker
from headscope.view.card import FactMaker, Facts, Part, by_head
from headscope.view.claim import Claim, Outcome, fill_exact, judge
from headscope.view.figure import Chart, Figure
from headscope.view.layer_dots import LayerDots, how_to_read
from headscope.view.numbers import RATIO, SMALL, row_estimate
from headscope.view.presentation import IMPORTANCE, Presentation, PrintedTable
from headscope.view.table import TextTable

__all__ = ["PRESENTATION"]

MADE_BY = "--text FILE --also gradient"
UNLESS = "It needs a model with a trained language-modelling head."
VERY_SMALL = 0.5  # of the gradient to other tokens
THIRDS = {0: "lower layers", 1: "middle layers", 2: "upper layers"}
ALIKE = (0.8, 1.25)  # a ratio of gradients that is about 1


def _attended(tables: Tables) -> pd.DataFrame:
    """The classes of tokens that there are."""
    table = tables["gradient"]
    return table[table.groupby("target")["gradient"].transform("max") > 0]


def draw_gradient(tables: Tables) -> Chart:
    """One colour a class of tokens."""
    rows = _attended(tables)
    dots = LayerDots(
        value="gradient",
        title="size of the gradient of the loss",
        split="target",
        words=PANELS,
        by_panel=False,
    )
    return dots.draw(rows if len(rows) else tables["gradient"])


def gradient_facts(tables: Tables) -> Facts:
    """How far the loss depends on its attention, by target."""

    rows = _attended(tables)
    largest = rows["gradient"].max()

    def phrase(row: Any) -> Part:
        called = f"to {TARGETS.get(row.target, row.target)}"
        return Part(called, SMALL.row(row, "gradient"), row.gradient / largest)

    return by_head(rows, "gradient of the loss", phrase)


def read_gradients(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """For each class of tokens the mean gradient over the heads of each third of the layers."""
    third = ((table["layer"] - 1) * 3 // count_layers(table)).rename("third")
    means = table.groupby(["target", third], sort=False)["gradient"].mean().unstack()
    parts = [part for part in THIRDS if part in means]
    columns = ("the loss depends on attention to", *(THIRDS[part] for part in parts))
    rows = [
        (str(target), *(SMALL.number(row[part]) for part in parts))
        for target, row in means.iterrows()
    ]
    return [TextTable(columns, tuple(rows))]


def answer_gradient(tables: Tables) -> list[Answer]:
    """Whether the loss depends on attention to what serves as a sink."""
    target, called, _ = find_sink(tables["gradient"], "gradient")
    table = tables["gradient-layers"]
    rows = table[(table["layers"] == UPPER) & (table["target"] == target) & table["ratio"].notna()]
    if rows.empty:
        return []
    row, n_layers = rows.iloc[0], count_layers(tables["gradient"])
    where = name_layers(like_paper(5, 12, n_layers), n_layers)
    times = f"{RATIO.number(row['ratio'])} times"
    detail = f"Ratio of the gradients: {RATIO.row(row, 'ratio')}."
    is_alike = row["low"] >= ALIKE[0] and row["high"] <= ALIKE[1]
    if not (is_alike or row["low"] > 1 or row["high"] < 1):
        text = (
            f"In {where}, whether the loss depends more on attention to {called} or on attention "
            f"to ordinary tokens is undecided ({times} as much)."
        )
        return [Answer(text, OPEN, detail, (), "gradient")]
    as_much = f"about as much ({times})" if is_alike else f"{times} as much"
    text = (
        f"In {where}, the loss depends {as_much} on attention to {called} as on attention to "
        "ordinary tokens."
    )
    return [Answer(text, 0.65, detail, (), "gradient")]


def check_small(tables: Tables) -> Outcome:
    """From layer 5 of 12 on the loss depends on attention to [SEP] less than on other attention."""
    target, called, note = find_sink(tables["gradient"], "gradient")
    n_layers = count_layers(tables["gradient"])
    table = fill_exact(tables["gradient-layers"], "ratio")
    upper = table[table["layers"] == UPPER].set_index("target")
    sink, rest = upper.loc[target], upper.loc["other"]
    if pd.isna(sink["ratio"]):
        return Outcome("not measured", f"{note}There are no gradients to compare.")
    shows = (
        f"{note}In {name_layers(like_paper(5, 12, n_layers), n_layers)} the gradient to {called} "
        f"is {SMALL.number(sink['gradient'])}, that to other tokens "
        f"{SMALL.number(rest['gradient'])}: {RATIO.row(sink, 'ratio')} times as large."
    )
    return judge(row_estimate(sink, "ratio"), VERY_SMALL, shows, RATIO, is_above=False)


def check_falls(tables: Tables) -> Outcome:
    """The gradient to [SEP] falls near layer 5 of 12, to half of what it was or less."""
    target, called, note = find_sink(tables["gradient"], "gradient")
    return check_step(
        tables["gradient-steps"],
        target,
        f"{note}The gradient to {called}",
        count_layers(tables["gradient"]),
        is_rise=False,
    )


def _claim(
    name: str, says: str, paper: str, check: Callable[[Tables], Outcome], table: str
) -> Claim:
    needs = ("gradient", table)
    return Claim(name, "3.2", says, paper, needs, MADE_BY, check, "gradient", UNLESS)


FIGURE = Figure(
    name="gradient",
    title="Does attention matter to the loss?",
    caption=(
        "How strongly the loss changes with the attention weights to a class of tokens. "
        f"{how_to_read('mean size of the gradient')} One colour for each class of attended tokens. "
        "Where it is near zero, attending more or less there changes nothing."
    ),
    needs=("gradient",),
    made_by=MADE_BY,
    draw_tables=draw_gradient,
    paper="Figure 3",
)
CLAIMS = (
    _claim(
        "gradient-to-sep-is-small",
        "From layer 5 of 12 on, the gradients for attention to [SEP] are very small (here: less "
        "than half of those to other tokens).",
        '"the gradients for attention to [SEP] become very small"',
        check_small,
        "gradient-layers",
    ),
    _claim(
        "gradient-to-sep-falls",
        "The gradients for attention to [SEP] fall at layer 5 of 12 (here: the layer where a step "
        "down fits best is one of 4-6 of 12, and from there on they are less than half as large as "
        "before).",
        '"Starting in layer 5" they "become very small"; Figure 3',
        check_falls,
        "gradient-steps",
    ),
)
PRESENTATION = Presentation(
    section=IMPORTANCE,
    figures=(FIGURE,),
    claims=CLAIMS,
    answers=(AnswerMaker(("gradient", "gradient-layers"), answer_gradient),),
    facts=(FactMaker(("gradient",), gradient_facts),),
    printed=(PrintedTable("gradient", read_gradients),),
)
