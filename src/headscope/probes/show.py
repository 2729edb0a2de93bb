"""How probes are shown: section 5 of the paper with its Table 3, learning curves, weights."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from headscope.data.table import Tables
from headscope.probes import UNTRAINED_PREFIX
from headscope.probes.charts import draw_curve, draw_parts, draw_structure
from headscope.view.answer import OPEN, Answer, AnswerMaker, in_hundred, weigh
from headscope.view.best_bars import BestBars
from headscope.view.card import FactMaker, Facts, add_rank, by_head
from headscope.view.claim import Claim, Outcome, all_of, judge
from headscope.view.figure import Chart, Figure, number
from headscope.view.heads_grid import HeadsGrid
from headscope.view.numbers import PERCENT, POINTS, SHARE, p_value, percent, row_estimate
from headscope.view.presentation import ALL_HEADS, PageTable, Presentation, PrintedTable
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
BETWEEN_WORDS = {"dependent-to-head": "word to candidate", "head-to-dependent": "candidate to word"}
TO_ROOT = {"opening": "word to opening token", "closing": "word to closing token"}


def draw_probes(tables: Tables) -> Chart:
    """The share of words whose head a probe finds, beside the paper's."""
    paper = tables["probes"]["probe"].map(PAPER_UAS) / 100
    bars = BestBars(
        label="probe",
        value="uas",
        title="heads of words found (UAS)",
        bar="this model",
        ticks={"paper": "the paper (BERT-base, WSJ)"},
        said=[
            alt.Tooltip("sentences:Q", title="learned from sentences", format=","),
            alt.Tooltip("parameters:Q", format=","),
            number("mst_uas", "UAS of whole trees", ".1%"),
            number("uuas", "UUAS", ".1%"),
        ],
        carried=["sentences", "parameters", "mst_uas", "uuas"],
        has_heads=False,
    )
    return bars.draw(tables["probes"].assign(paper=paper))


def draw_weights(tables: Tables) -> Chart:
    """A grid for each direction; those between words and those for ROOT on scales of their own."""
    weights = _trained_weights(tables["probe-weights"])
    grids = []
    for names, title in ((BETWEEN_WORDS, "weight, words"), (TO_ROOT, "weight, ROOT")):
        rows = weights.assign(direction=weights["direction"].map(names)).dropna(subset="direction")
        if len(rows):
            order = list(names.values())
            grid = HeadsGrid("weight", title, diverging=True, panel="direction", panel_order=order)
            grids.append(grid.draw(rows))
    return alt.vconcat(*grids, spacing=20).resolve_scale(color="independent")


def _trained_weights(table: pd.DataFrame) -> pd.DataFrame:
    """The weights of the probe over the model itself; without it, those of the first probe."""
    of_heads = table[table["layer"].notna()]
    trained = of_heads[of_heads["probe"] == ATTENTION]
    return trained if len(trained) else of_heads[of_heads["probe"] == of_heads["probe"].iloc[0]]


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
    found = uas[name]
    text = (
        f"A probe over all heads ({name}) finds the syntactic head of "
        f"{in_hundred(found.value)} of 100 words"
    )
    weight = weigh(0.95, found)
    rules = {probe: uas[probe] for probe in BASELINES if probe in uas}
    if rules:
        rule = max(rules, key=lambda probe: rules[probe].value)
        is_better = found.low > rules[rule].high
        text += f"; the strongest baseline ({rule}) finds {in_hundred(rules[rule].value)}"
        text += "" if is_better else ", so it is not clearly better"
        weight = weight if is_better else OPEN
    return [Answer(f"{text}.", weight, f"UAS {SHARE.estimate(found)}.", (), "probes")]


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
    gain = POINTS.row({**row, "low": row["gain_low"], "high": row["gain_high"]}, "gain")
    return (*scores, head + arrow, percent(row["best_head_accuracy"]), gain)


def build_table_3(tables: Tables) -> list[TextTable]:
    """The paper's probes in its order, then the others that were trained."""
    if not len(tables.get("probes", ())):
        return []
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
    found = {str(r["other"]): r for _, r in table[table["probe"] == probe].iterrows()}
    for _, row in table[table["other"] == probe].iterrows():  # the other way round
        ends = {"difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
        found[str(row["probe"])] = pd.Series({**row, **ends})
    return found


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


def _claim(
    name: str,
    says: str,
    probes: Sequence[str],
    check: Callable[[Tables], Outcome],
    quote: str = "",
    needs: tuple[str, ...] = ("probes",),
) -> Claim:
    uas = ", ".join(f"{probe} {PAPER_UAS[probe]}" for probe in probes)
    paper = f"{quote}UAS: {uas} (Table 3)"
    return Claim(name, "5", says, paper, needs, WITH_VECTORS, check, "probes")


def _compare(
    name: str, says: str, probe: str, *others: str, margin: float = 0.0, quote: str = ""
) -> Claim:
    check = partial(check_above, probe=probe, others=others, margin=margin)
    needs = ("probes", "probe-differences")
    return _claim(name, says, (probe, *others), check, quote, needs)


def _figure(
    name: str, title: str, draw: Callable[[Tables], Chart], caption: str, paper: str = ""
) -> Figure:
    return Figure(name, title, caption, (name,), "--treebank FILE --train FILE", draw, paper)


FIGURES = (
    _figure(
        "probes",
        "How much syntax all heads hold together",
        draw_probes,
        "One row per probe (a small parser): single heads, all heads together, hidden states. Bar: "
        "share of words whose syntactic head it finds, without punctuation, with its 95 % interval "
        "over documents and seeds. Tick: the paper's result for the same probe on BERT-base and "
        "another treebank, if there is one.",
        paper="Table 3",
    ),
    _figure(
        "probe-curve",
        "How fast probes learn",
        draw_curve,
        "Share of words whose syntactic head a probe finds, by the number of training sentences, "
        "with 95 % intervals. If a curve is flat early, the syntax is in the attention and not "
        "learned by the probe.",
    ),
    _figure(
        "probe-parts",
        "How many heads make the parse",
        draw_parts,
        "Share of words whose syntactic head the attention-only probe finds when it reads only "
        "some heads. Lines add heads: greedy adds the most promising head each time; L1 keeps the "
        "heads that a penalty on weights leaves. Grey: single layers, all heads, and all heads but "
        "some.",
    ),
    _figure(
        "probe-structure",
        "Trees in the hidden states, layer by layer",
        draw_structure,
        "The structural probe of Hewitt and Manning, by their own measures. Line: each layer, "
        "trained on at most 1,000 sentences. Rings: probes trained on all sentences. Dashed line: "
        "a chain of words, which needs no model.",
    ),
    _figure(
        "probe-weights",
        "Which heads the parse is made of",
        draw_weights,
        "Weights of the attention-only probe. Each cell is a head. Rows: layers. Columns: heads. "
        "Red: its attention raises the score of a candidate. Blue: it lowers it. Top: attention "
        "between a word and the candidate. Bottom: attention to special tokens, which counts for "
        "ROOT and has its own scale.",
    ),
)
CLAIMS = (
    _compare(
        "probe-beats-baselines",
        "All heads together, weighted by the words, parse substantially better than baselines "
        "without attention (here: by over 5 points).",
        *(WORDS, RIGHT, DISTANCES),
        margin=SUBSTANTIAL,
        quote='"substantially outperforms our baselines"; ',
    ),
    _claim(
        "probe-parses-well",
        "All heads together, weighted by the words, reach a decent UAS (here: over 70).",
        (WORDS,),
        check_decent,
        '"achieves a decent UAS of 77"; ',
    ),
    _compare(
        "words-help-the-probe",
        "A probe over attention is better if it also reads the words.",
        *(WORDS, ATTENTION),
        quote='it "should benefit from having information about the input words"; ',
    ),
    _compare(
        "attention-alone-beats-distances",
        "Attention alone parses better than distances and words do.",
        *(ATTENTION, DISTANCES),
    ),
    _compare(
        "syntax-comes-from-training",
        "The attention of the trained model parses substantially better than that of the untrained "
        "one (here: by over 5 points).",
        *(WORDS, UNTRAINED),
        margin=SUBSTANTIAL,
        quote='"substantially outperforms our baselines"; ',
    ),
)
PRESENTATION = Presentation(
    section=ALL_HEADS,
    figures=FIGURES,
    claims=CLAIMS,
    answers=(AnswerMaker(("probes",), answer_probes),),
    facts=(FactMaker(("probe-weights",), weight_facts),),
    printed=(
        PrintedTable("probes", read_probes),
        PrintedTable("probe-differences", read_differences),
        PrintedTable("probe-relations", read_relations),
        PrintedTable("probe-curve"),
        PrintedTable("probe-selectivity"),
        PrintedTable("probe-description"),
        PrintedTable("probe-parts"),
        PrintedTable("probe-structure"),
        PrintedTable("probe-weights"),
    ),
    page_tables=(
        PageTable("Table 3, probes", "--treebank TEST.conllu --train TRAIN.conllu", build_table_3),
    ),
)
