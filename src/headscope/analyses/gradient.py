"""Does attention to special tokens matter? Gradients of the loss by weights (paper, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan

import pandas as pd
import xarray as xr

from headscope.analyses.special_tokens import classes
from headscope.analyses.special_tokens.claims import check_step, find_sink
from headscope.analyses.special_tokens.measure import STEP_COLUMNS, step_rows
from headscope.analyses.special_tokens.show import PANELS, TARGETS
from headscope.contracts import Analysis, Watch
from headscope.data.attention import Gradients
from headscope.data.depth import count_layers, like_paper, name_layers
from headscope.data.table import Tables, rows_where
from headscope.lazy import Tensor, torch
from headscope.stats.difference import ratio_estimate
from headscope.stats.estimates import AT_LEAST_0, Estimates, Number, Summary, mean_over_layers
from headscope.stats.interval import Estimate
from headscope.stats.sums import REPLICATE, Sums
from headscope.view.answer import Answer, AnswerMaker, Topic
from headscope.view.facts import head_facts
from headscope.view.judge import Claim, Outcome, fill_exact, judge
from headscope.view.numbers import RATIO, SMALL, row_estimate
from headscope.view.presentation import IMPORTANCE, Presentation
from headscope.view.specs import Dots, PrintedTable, how_to_read
from headscope.view.table import TextTable

__all__ = ["UPPER", "Gradient"]

UPPER = "5-12 of 12"  # layers, scaled to the depth of the model


@dataclass(frozen=True)
class Gradient(Analysis):
    """Mean |d loss / d weight| over all pairs of tokens, by class of the attended token.

    The loss is that of the model's own training: masked tokens, or the next token. A weight that
    could change without changing the loss does nothing. Pairs that a query cannot see have no
    weight, and do not count.
    """

    token_classes: classes.TokenClasses = classes.token_classes_option()

    name = "gradient"
    watches = Watch.GRADIENT
    weighs_documents = True
    sums = {"size": "layer head target", "pairs": "layer target"}
    tables = {
        "gradient": ("layer", "head", "target", "gradient", "low", "high"),
        "gradient-layers": ("layers", "target", "gradient", "ratio", "low", "high"),
        "gradient-steps": STEP_COLUMNS,
    }

    def __post_init__(self) -> None:
        classes.check_classes(self.token_classes)

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        return {"target": classes.class_names(self.token_classes)}

    def measure(self, seen: Gradients) -> Mapping[str, Tensor]:
        """Sums of gradients' sizes by head and target, and how many pairs there are."""
        sizes = seen.sizes  # [example, layer, head, key]
        targets = classes.classify(seen.batch, self.token_classes).to(sizes.dtype)
        pairs = torch.einsum("lk,ekt->elt", seen.seen_by, targets)
        return {"size": sizes @ targets[:, None], "pairs": pairs}  # [example, layer, head, target]

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Mean over pairs, by head and target; then over heads, beside the other tokens' one.

        Last, for each target the layer from which on the gradients are smaller.
        """
        size = sums.mean("size", "pairs")  # [replicate, layer, head, target]
        by_layer = size.mean("head", skipna=False)
        return {
            self.name: Estimates({"gradient": Number(size, AT_LEAST_0)}),
            "gradient-layers": _layer_table(by_layer),
            "gradient-steps": step_rows(
                by_layer.values, by_layer.target.values.tolist(), is_rise=False
            ),
        }


def _layer_table(by_layer: xr.DataArray) -> Estimates:
    """The mean over groups of layers, and beside that of other tokens."""
    n_layers = by_layer.sizes["layer"]
    named = {"all": range(1, n_layers + 1), UPPER: like_paper(5, 12, n_layers)}
    groups = mean_over_layers(by_layer, named)  # [replicate, layers, target]
    other = groups.sel(target="other").broadcast_like(groups).transpose(*groups.dims)
    first = groups.isel({REPLICATE: 0})
    ratio = (first.copy(data=part) for part in ratio_estimate(groups.values, other.values))
    return Estimates({"gradient": first, "ratio": Estimate(*ratio)})


UNLESS = "It needs a model with a trained language-modelling head."
VERY_SMALL = 0.5  # of the gradient to other tokens
THIRDS = {0: "lower layers", 1: "middle layers", 2: "upper layers"}
ALIKE = (0.8, 1.25)  # a ratio of gradients that is about 1


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
    rows = rows_where(tables["gradient-layers"], layers=UPPER, target=target)
    rows = rows[rows["ratio"].notna()]
    if rows.empty:
        return []
    row, n_layers = rows.iloc[0], count_layers(tables["gradient"])
    where = name_layers(like_paper(5, 12, n_layers), n_layers)
    times, ratio = f"{RATIO.row(row, 'ratio')} times", row_estimate(row, "ratio")
    detail = f"Ratio of the gradients: {RATIO.row(row, 'ratio')}."
    is_alike = ratio.low >= ALIKE[0] and ratio.high <= ALIKE[1]
    line = nan if is_alike else 1.0
    as_much = f"about as much ({times})" if is_alike else f"{times} as much"
    text = (
        f"In {where}, the loss depends {as_much} on attention to {called} as on attention to "
        "ordinary tokens."
    )
    return [Answer(text, 0.65, detail, (), "gradient", Topic.ASKED, ratio, line, inf)]


def check_small(tables: Tables) -> Outcome:
    """From layer 5 of 12 on the loss depends on attention to [SEP] less than on other attention."""
    target, called, note = find_sink(tables["gradient"], "gradient")
    n_layers = count_layers(tables["gradient"])
    table = fill_exact(tables["gradient-layers"], "ratio")
    upper = rows_where(table, layers=UPPER).set_index("target")
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
    n_layers, what = count_layers(tables["gradient"]), f"{note}The gradient to {called}"
    return check_step(tables["gradient-steps"], target, what, n_layers, is_rise=False)


PRESENTATION = Presentation(
    IMPORTANCE, made_by="--text FILE --also gradient", paper="3.2", figure="gradient", show=[
    Dots(
        name="gradient", column="gradient", axis="size of the gradient of the loss",
        split="target", words=PANELS, seen="target", by_colour=True,
        title="Does attention matter to the loss?", paper="Figure 3",
        caption="How strongly the loss changes with the attention weights to a class of tokens. "
        f"{how_to_read('mean size of the gradient')} One colour for each class of attended tokens. "
        "Where it is near zero, attending more or less there changes nothing.",
    ),
    Claim(
        "gradient-to-sep-is-small", check_small, needs=("gradient", "gradient-layers"),
        unless=UNLESS,
        says="From layer 5 of 12 on, the gradients for attention to [SEP] are very small (here: "
        "less than half of those to other tokens).",
        paper='"the gradients for attention to [SEP] become very small"',
    ),
    Claim(
        "gradient-to-sep-falls", check_falls, needs=("gradient", "gradient-steps"), unless=UNLESS,
        says="The gradients for attention to [SEP] fall at layer 5 of 12 (here: the layer where a "
        "step down fits best is one of 4-6 of 12, and from there on they are less than half as "
        "large as before).",
        paper='"Starting in layer 5" they "become very small"; Figure 3',
    ),
    AnswerMaker(("gradient", "gradient-layers"), answer_gradient),
    head_facts(
        "gradient of the loss", "gradient", "gradient", form=SMALL, split="target", words=TARGETS,
        label="to {}", seen=True, bar="largest", is_ranked=False,
    ),
    PrintedTable("gradient", read_gradients),
])  # fmt: skip
