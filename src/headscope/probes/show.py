"""How probes are shown: section 5 of the paper with its Table 3, learning curves, weights."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import nan
from typing import Any

import pandas as pd

from headscope.data.table import Tables
from headscope.probes import UNTRAINED_PREFIX
from headscope.view.answer import Answer, AnswerMaker, Topic
from headscope.view.facts import FactMaker, Facts, add_rank, by_head
from headscope.view.judge import Claim, Outcome, all_of, judge
from headscope.view.numbers import (
    PERCENT,
    POINTS,
    SHARE,
    WHOLE_PERCENT,
    p_value,
    percent,
    row_estimate,
)
from headscope.view.presentation import ALL_HEADS, Presentation
from headscope.view.specs import Bars, Figure, Hover, PageTable, PrintedTable
from headscope.view.table import Column, TextTable, build_table

__all__ = ["PRESENTATION"]

RIGHT, DISTANCES = "right-branching", "distances-and-words"
ATTENTION, WORDS = "attention-only", "attention-and-words"
UNTRAINED = f"{UNTRAINED_PREFIX}{WORDS}"
# Clark et al. 2019, Table 3 (BERT-base on WSJ): UAS without punctuation.
PAPER_UAS = {RIGHT: 26, DISTANCES: 58, UNTRAINED: 30, ATTENTION: 61, WORDS: 77}
BASELINES = (RIGHT, "words-only", DISTANCES, UNTRAINED, f"{UNTRAINED_PREFIX}{ATTENTION}")
STRUCTURAL = "structural-probe"
PAPER_STRUCTURAL = "80 UUAS"
WITH_VECTORS = "--train FILE --treebank FILE --vectors FILE"
DECENT, SUBSTANTIAL = 0.7, 0.05


def weight_facts(tables: Tables) -> Facts:
    """Its weights in the probes of attention alone."""
    table = tables["probe-weights"]
    table = table[table["layer"].notna() & ~table["probe"].str.startswith(UNTRAINED_PREFIX)]
    sizes = add_rank(table.assign(size=table["weight"].abs()), "size", "probe", "direction")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        return f"{row.direction} {row.weight:+.2f} (size: rank {row.rank:.0f} of {n_heads})"

    for probe, rows in sizes.groupby("probe", sort=False):
        yield from by_head(rows, f"weight in the probe {probe}", phrase)


def answer_probes(tables: Tables) -> list[Answer]:
    """What the strongest probe over attention finds, beside the strongest baseline."""
    uas = {str(row["probe"]): row_estimate(row, "uas") for _, row in tables["probes"].iterrows()}
    name = next((probe for probe in (WORDS, ATTENTION) if probe in uas), None)
    if name is None:
        return []
    estimate = uas[name]
    text = (
        f"A probe over all heads ({name}) finds the syntactic head of "
        f"{WHOLE_PERCENT.estimate(estimate)} of words"
    )
    rules = {probe: uas[probe] for probe in BASELINES if probe in uas}
    line = nan
    if rules:
        rule = max(rules, key=lambda probe: rules[probe].value)
        line = rules[rule].high
        text += f"; the strongest baseline ({rule}) that of {WHOLE_PERCENT.estimate(rules[rule])}"
    detail = f"UAS {SHARE.estimate(estimate)}."
    return [Answer(f"{text}.", 0.95, detail, (), "probes", Topic.FINDS, estimate, line)]


def read_probes(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """Every probe's scores, with the paper's UAS last."""
    columns = (
        Column("probe", lambda row: str(row["probe"])),
        Column("UAS %", lambda row: PERCENT.row(row, "uas")),
        Column("with punct", lambda row: percent(row["uas_with_punctuation"])),
        Column("UUAS", lambda row: percent(row["uuas"])),
        Column("MST UAS", lambda row: percent(row["mst_uas"])),
        Column("LAS", lambda row: percent(row["las"])),
        Column("seeds", lambda row: str(row["seeds"])),
        Column("sentences", lambda row: f"{row['sentences']:,}"),
        Column("parameters", lambda row: f"{row['parameters']:,}"),
        Column("paper", lambda row: str(PAPER_UAS.get(row["probe"], ""))),
    )
    return [build_table(table.to_dict("records"), columns)]


def read_differences(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """How much more the strongest probes find than each other one of the same words."""
    named = [name for name in (ATTENTION, WORDS, STRUCTURAL) if name in set(table["probe"])]
    table = table[table["probe"].isin(named[-2:])] if named else table
    columns = (
        Column("probe", lambda row: str(row["probe"])),
        Column("compared with", lambda row: str(row["other"])),
        Column("UAS", lambda row: POINTS.row(row, "difference")),
        Column("p", lambda row: p_value(row["p_value"])),
    )
    return [build_table(table.to_dict("records"), columns)]


def read_relations(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The relations of the strongest probe beside their best single heads, most frequent first."""
    name = _strongest(table)
    if name is None:
        return []
    shown = table[(table["probe"] == name) & (table["count"] >= min_count)]
    columns = ("relation", "count", f"{name} %", "best head", "its %", "gain [95 %]")
    return [TextTable(columns, tuple(_relation_row(row) for row in shown.to_dict("records")))]


def _strongest(table: pd.DataFrame) -> str | None:
    return next((probe for probe in (WORDS, ATTENTION) if probe in set(table["probe"])), None)


def _relation_row(row: Mapping[Any, Any]) -> tuple[str, ...]:
    scores = (str(row["relation"]), str(row["count"]), percent(row["accuracy"]))
    if pd.isna(row["gain"]):
        return (*scores, "", "", "")
    head = f"{row['best_layer']}-{row['best_head']}"
    arrow = " (h>d)" * (row["best_direction"] == "head-to-dependent")
    return (*scores, head + arrow, percent(row["best_head_accuracy"]), POINTS.row(row, "gain"))


def build_table_3(tables: Tables) -> list[TextTable]:
    """The paper's probes in its order, then the others that were trained."""
    strongest = _strongest(tables["probes"]) or WORDS
    above = _differences(tables, strongest)
    in_paper = PAPER_UAS | {STRUCTURAL: PAPER_STRUCTURAL}
    rows = {name: (name, "-", "-", "-", "-", str(uas)) for name, uas in in_paper.items()}
    for name, row in tables["probes"].set_index("probe").iterrows():
        interval, sentences = PERCENT.interval(row["low"], row["high"]), f"{row['sentences']:,.0f}"
        paper = str(in_paper.get(str(name), ""))
        gap = POINTS.row(above[str(name)], "difference") if str(name) in above else ""
        rows[str(name)] = (str(name), percent(row["uas"]), interval, gap, sentences, paper)
    columns = (
        *("probe", "UAS %", "95 % interval", f"{strongest} is above it by"),
        *("training sentences", "BERT-base: UAS %"),
    )
    note = (
        "Words whose syntactic head is found from the attention of all heads together, without "
        "punctuation. Differences are paired: both probes are scored on the same words, and their "
        "interval is that of the difference. BERT-base: the paper's result on the Wall Street "
        "Journal with GloVe vectors. A dash means that the probe was not trained. The structural "
        "probe reads "
        "vectors, not attention. Here it is scored by directed arcs, as the others are; the paper "
        "quotes it without direction."
    )
    return [TextTable(columns, tuple(rows.values()), "Probes over all heads", note)]


def check_above(tables: Tables, probe: str, others: Sequence[str], margin: float = 0.0) -> Outcome:
    """Whether a probe finds more than each of the others, by a margin; paired by document."""
    uas = {str(row["probe"]): row["uas"] for _, row in tables["probes"].iterrows()}
    missing = [name for name in (probe, *others) if name not in uas]
    if missing:
        return _not_trained(missing)
    above = _differences(tables, probe)
    outcomes = []
    for other in others:
        gap = row_estimate(above[other], "difference")
        shows = f"Minus {other} ({SHARE.number(uas[other])}): {POINTS.estimate(gap)}."
        outcomes.append(judge(gap, margin, shows, POINTS))
    shows = " ".join(outcome.shows for outcome in outcomes)
    verdict = all_of([outcome.verdict for outcome in outcomes])
    return Outcome(verdict, f"The UAS of {probe} is {SHARE.number(uas[probe])}. {shows}")


def _differences(tables: Tables, probe: str) -> dict[str, pd.Series]:
    """The rows that compare a probe with others, by the other's name."""
    table = tables.get("probe-differences", pd.DataFrame({"probe": [], "other": []}))
    rows = {str(r["other"]): r for _, r in table[table["probe"] == probe].iterrows()}
    for _, row in table[table["other"] == probe].iterrows():  # the other way round
        ends = {"difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
        rows[str(row["probe"])] = pd.Series({**row, **ends})
    return rows


def check_decent(tables: Tables) -> Outcome:
    """Attention and words reach a UAS of over 70."""
    rows = tables["probes"][tables["probes"]["probe"] == WORDS]
    if rows.empty:
        return _not_trained([WORDS])
    uas = row_estimate(rows.iloc[0], "uas")
    return judge(uas, DECENT, f"Its UAS is {SHARE.estimate(uas)}.")


def _not_trained(probes: Sequence[str]) -> Outcome:
    lacks = f"The run has no probe {' and no '.join(probes)}."
    return Outcome("not measured", f"{lacks} Train with: headscope analyze MODEL {WITH_VECTORS}")


def _claim(name: str, probes: Sequence[str], quote: str = "", **texts: Any) -> Claim:
    """A claim about probes, with the paper's UAS of each."""
    uas = ", ".join(f"{probe} {PAPER_UAS[probe]}" for probe in probes)
    return Claim(name, paper=f"{quote}UAS: {uas} (Table 3)", made_by=WITH_VECTORS, **texts)


def _above(name: str, probe: str, *others: str, margin: float = 0.0, **texts: Any) -> Claim:
    """A claim that a probe finds more than each of the others."""
    check = partial(check_above, probe=probe, others=others, margin=margin)
    return _claim(
        name, (probe, *others), check=check, needs=("probes", "probe-differences"), **texts
    )


CHARTS = "headscope.probes.charts"
BETTER = '"substantially outperforms our baselines"; '
PRESENTATION = Presentation(
    ALL_HEADS, made_by="--treebank FILE --train FILE", paper="5", figure="probes", show=[
    Bars(
        name="probes", label="probe", column="uas", axis="heads of words found (UAS)",
        rows=lambda tables: tables["probes"].assign(
            paper=tables["probes"]["probe"].map(PAPER_UAS) / 100
        ),
        bar="this model", ticks={"paper": "the paper (BERT-base, WSJ)"}, has_heads=False,
        hover=[
            Hover("sentences", "learned from sentences", ","), Hover("parameters", form=","),
            Hover("mst_uas", "UAS of whole trees", ".1%"), Hover("uuas", "UUAS", ".1%"),
        ],
        title="How much syntax all heads hold together", paper="Table 3",
        caption="One row per probe (a small parser): single heads, all heads together, hidden "
        "states. Bar: share of words whose syntactic head it finds, without punctuation, with its "
        "95 % interval over documents and seeds. Tick: the paper's result for the same probe on "
        "BERT-base and another treebank, if there is one.",
    ),
    Figure(
        name="probe-curve", draw_tables=f"{CHARTS}:draw_curve", title="How fast probes learn",
        caption="Share of words whose syntactic head a probe finds, by the number of training "
        "sentences, with 95 % intervals. If a curve is flat early, the syntax is in the attention "
        "and not learned by the probe.",
    ),
    Figure(
        name="probe-parts", draw_tables=f"{CHARTS}:draw_parts",
        title="How many heads make the parse",
        caption="Share of words whose syntactic head the attention-only probe finds when it reads "
        "only some heads. Lines add heads: greedy adds the most promising head each time; L1 keeps "
        "the heads that a penalty on weights leaves. Grey: single layers, all heads, and all heads "
        "but some.",
    ),
    Figure(
        name="probe-structure", draw_tables=f"{CHARTS}:draw_structure",
        title="Trees in the hidden states, layer by layer",
        caption="The structural probe of Hewitt and Manning, by their own measures. Line: each "
        "layer, trained on at most 1,000 sentences. Rings: probes trained on all sentences. Dashed "
        "line: a chain of words, which needs no model.",
    ),
    Figure(
        name="probe-weights", draw_tables=f"{CHARTS}:draw_weights",
        title="Which heads the parse is made of",
        caption="Weights of the attention-only probe. Each cell is a head. Rows: layers. Columns: "
        "heads. Red: its attention raises the score of a candidate. Blue: it lowers it. Top: "
        "attention between a word and the candidate. Bottom: attention to special tokens, which "
        "counts for ROOT and has its own scale.",
    ),
    _above(
        "probe-beats-baselines", WORDS, RIGHT, DISTANCES, margin=SUBSTANTIAL, quote=BETTER,
        says="All heads together, weighted by the words, parse substantially better than baselines "
        "without attention (here: by over 5 points).",
    ),
    _claim(
        "probe-parses-well", (WORDS,), check=check_decent, needs=("probes",),
        says="All heads together, weighted by the words, reach a decent UAS (here: over 70).",
        quote='"achieves a decent UAS of 77"; ',
    ),
    _above(
        "words-help-the-probe", WORDS, ATTENTION,
        says="A probe over attention is better if it also reads the words.",
        quote='it "should benefit from having information about the input words"; ',
    ),
    _above(
        "attention-alone-beats-distances", ATTENTION, DISTANCES,
        says="Attention alone parses better than distances and words do.",
    ),
    _above(
        "syntax-comes-from-training", WORDS, UNTRAINED, margin=SUBSTANTIAL, quote=BETTER,
        says="The attention of the trained model parses substantially better than that of the "
        "untrained one (here: by over 5 points).",
    ),
    AnswerMaker(("probes",), answer_probes),
    FactMaker(("probe-weights",), weight_facts),
    PrintedTable("probes", read_probes),
    PrintedTable("probe-differences", read_differences),
    PrintedTable("probe-relations", read_relations),
    *(
        PrintedTable(f"probe-{name}")
        for name in ("curve", "selectivity", "description", "parts", "structure", "weights")
    ),
    PageTable(
        "Table 3, probes", "--treebank TEST.conllu --train TRAIN.conllu", "probes", build_table_3,
        name="table-3",
    ),
])  # fmt: skip
