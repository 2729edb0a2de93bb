"""What is shown of heads as coreference resolvers (section 4.3, Table 2)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from headscope.analyses.coreference.answers import ANSWERS
from headscope.analyses.coreference.measure import Coreference
from headscope.analyses.coreference.paper_table import (
    PAPER_TABLE_2,
    RULES,
    build_table_2,
    choose_among_mentions,
    read_best,
)
from headscope.analyses.coreference.tables import CANDIDATES, DIRECTIONS
from headscope.data.example import Example
from headscope.data.table import Tables, rows_where
from headscope.view.answer import name_best
from headscope.view.facts import FactMaker, Facts, accuracy_facts, best_head_facts
from headscope.view.judge import Claim, Outcome, all_of, in_paper_window, judge, name_head
from headscope.view.numbers import (
    POINTS,
    SHARE,
    Form,
    held_out,
    is_agreed,
    percent,
    row_estimate,
)
from headscope.view.presentation import ANTECEDENTS, NotableHead, Presentation
from headscope.view.specs import (
    COLOURS,
    IN_BRACKETS,
    Bars,
    Hover,
    Kind,
    Labels,
    PageTable,
    PrintedTable,
)

__all__ = ["PRESENTATION", "WAYS"]
WAYS = {
    "mention-to-antecedent": "the mention attends to its antecedent",
    "antecedent-to-mention": "the antecedent attends to the mention",
}
PLURALS = {"all": "mentions", "pronoun": "pronouns", "proper": "names", "nominal": "noun phrases"}
LABELS = {
    kind: "coreference" if kind == "all" else f"coreference of {plural}"
    for kind, plural in PLURALS.items()
}
KIND = Kind("an antecedent (coreference)", COLOURS[3], "cross")
PANELS = {"mentions": "of earlier mentions", "words": "of all words"}
CLEARLY, NEAR = 0.1, 0.05
WORDS = Form(".1f", unit=" words")
NONE = "The corpus has no mentions with an antecedent."
NOT_HELD_OUT = "All documents are in one fold, so none can be held out."
MIN_COUNT = 50  # mentions, for the best head to be labelled


def _over_all(best: pd.DataFrame) -> pd.DataFrame:
    return rows_where(best, candidates=CANDIDATES[0], mention_type="all")


def panel_rows(tables: Tables) -> pd.DataFrame:
    """The best heads, in panels by corpus, window and set of candidates."""
    best = tables["coreference-best"]
    panels = best["candidates"].map(PANELS)
    if "window" in best:
        panels = panels + ", " + best["window"].astype(str) + " tokens"
    if "cut" in best:
        panels = panels + (best["cut"] == "truncate").map({True: ", truncated", False: ""})
    if "corpus" in best:
        panels = best["corpus"].astype(str) + ": " + panels
    return best.assign(panel=panels)


def antecedent_facts(tables: Tables) -> Facts:
    """The types of mention of which it is the best head."""
    return best_head_facts(
        choose_among_mentions(tables["coreference-best"]),
        lambda row: f"antecedents, {row.mention_type} mentions",
        lambda row: f"antecedents of {PLURALS[str(row.mention_type)]}",
        lambda row: (
            f"same head word {percent(row.head_match)} %, rules {percent(row.rule_based)} %"
        ),
        lambda row: WAYS[str(row.direction)],
    )


def find_labels(best: pd.DataFrame, mention_type: str) -> pd.DataFrame:
    """The best heads of a type of mention; known where they clearly find more than head match."""
    rows = choose_among_mentions(rows_where(best, mention_type=mention_type))
    rows = rows[rows["count"] >= MIN_COUNT].rename(columns={"heldout_accuracy": "share"})
    is_known = rows["heldout_low"] > rows["head_match"]
    return rows.assign(label=LABELS[mention_type], is_known=is_known & is_agreed(rows))


def find_notable_heads(tables: Tables) -> list[NotableHead]:
    """The head that is labelled for antecedents of all mentions."""
    if not len(tables.get("coreference-best", ())):
        return []
    best = find_labels(tables["coreference-best"], "all")
    return [
        NotableHead(
            f"coreference, {row['direction'].replace('-', ' ')}",
            "all",
            int(row["layer"]) - 1,
            int(row["head"]) - 1,
            (DIRECTIONS.index(row["direction"]), 0),
            partial(list_pairs, direction=row["direction"]),
        )
        for row in best[best["is_known"]].to_dict("records")
    ]


def list_pairs(analysis: Coreference, example: Example, direction: str) -> list[tuple[int, int]]:
    """Mentions and their nearest antecedents, from the word that attends."""
    questions = analysis.list_questions(example, np.ones(len(example.words or ()), bool))
    pairs = sorted((question.mention.head, max(question.answers)) for question in questions)
    return pairs if direction == DIRECTIONS[0] else [(end, start) for start, end in pairs]


def _contrasts(tables: Tables, than: str) -> dict[str, dict[str, Any]]:
    """By how much the head that is best over all mentions, held out, is above a rule, by type."""
    table = in_paper_window(tables["coreference-contrasts"])
    rows = rows_where(table, than=than, candidates=CANDIDATES[0]).to_dict("records")
    return {row["mention_type"]: row for row in reversed(rows)}


def check_head_match(row: pd.Series, tables: Tables) -> Outcome:
    """The best head is more than 10 points above the same head word, held out."""
    more = _contrasts(tables, "head-match").get("all")
    if more is None:
        return Outcome("not measured", NOT_HELD_OUT)
    shows = (
        f"{name_best(row, name_head(row))} finds {SHARE.estimate(held_out(row))} of the "
        f"antecedents held out (on all data {percent(row['accuracy'])} %), the nearest mention "
        f"with the same head word {percent(row['head_match'])} %: {POINTS.row(more, 'difference')}."
    )
    return judge(row_estimate(more, "difference"), CLEARLY, shows, POINTS)


def check_rules(row: pd.Series, tables: Tables) -> Outcome:
    """The best head is at most 5 points below the rules, held out."""
    gain = row_estimate(row, "heldout_difference")
    shows = (
        f"{name_best(row, name_head(row))} finds {SHARE.estimate(held_out(row))} held out, the "
        f"rules {percent(row['rule_based'])} %: {POINTS.estimate(gain)}."
    )
    return judge(gain, -NEAR, shows, POINTS)


def check_nominal(row: pd.Series, tables: Tables) -> Outcome:
    """The best head does best on nominal mentions, beside the rules."""
    kinds = [kind for kind in PAPER_TABLE_2 if kind != "all"]
    rows = _contrasts(tables, "rule-based")
    gains = {kind: rows.get(kind) for kind in kinds}
    more = {kind: rows.get(f"nominal - {kind}") for kind in kinds}
    known = {kind: row for kind, row in more.items() if row is not None}
    if not known:
        return Outcome("not measured", "The corpus has no nominal mentions, or no others.")
    values = ", ".join(
        f"{kind} {POINTS.row(gain, 'difference')}"
        for kind, gain in gains.items()
        if gain is not None
    )
    judged = {
        kind: judge(row_estimate(row, "difference"), 0.0, "", POINTS).verdict
        for kind, row in known.items()
    }
    compared = ", ".join(
        f"minus {kind} {POINTS.row(row, 'difference')} ({judged[kind]})"
        for kind, row in known.items()
    )
    shows = f"Accuracy minus that of the rules, held out: {values}. Nominal {compared}."
    return Outcome(all_of(list(judged.values())), shows)


def check_lengths(tables: Tables) -> Outcome:
    """The mean link is longer than the mean arc."""
    links = rows_where(in_paper_window(tables["coreference-length"]), mention_type="all")
    arcs = rows_where(tables["dependency-length"], relation="all (no punct or root)")
    if links["words"].isna().all() or arcs.empty:
        return Outcome("not measured", "There are no links, or no arcs, to measure.")
    shortest = links.sort_values("words", kind="stable").iloc[0]
    longest = arcs.sort_values("words", kind="stable").iloc[-1]
    link, arc = (row_estimate(row, "words") for row in (shortest, longest))
    shows = (
        f"The mean link to the nearest antecedent spans {WORDS.estimate(link)}, the mean arc "
        f"{WORDS.estimate(arc)}."
    )
    # they are of different corpora, so their intervals must not meet
    arc_end = arc.value if pd.isna(arc.high) else arc.high if link.value > arc.value else arc.low
    return judge(link, arc_end, shows, WORDS)


def of_best_head(check: Callable[[pd.Series, Tables], Outcome], tables: Tables) -> Outcome:
    """The check of the best head over all mentions, in the paper's window."""
    rows = _over_all(in_paper_window(tables["coreference-best"]))
    if rows.empty or rows.iloc[0]["count"] == 0:
        return Outcome("not measured", NONE)
    row = rows.iloc[0]
    outcome = check(row, tables)
    window = f"(Windows of {row['window']} tokens.) " if "window" in row else ""
    if row.get("cut") == "truncate":
        window = "(Documents truncated, as in the paper.) "
    return replace(outcome, shows=window + outcome.shows)


PRESENTATION = Presentation(
    ANTECEDENTS, made_by="--coref FILE", paper="4.3", figure="coreference-best",
    notable_heads=find_notable_heads, show=[
    Bars(
        name="coreference-best", rows=panel_rows, label="mention_type", column="heldout_accuracy",
        axis="antecedents found", bar="best head, held out", ticks=RULES, on_all="accuracy",
        panel="panel", hover=[Hover("direction"), Hover("count", form=",")],
        title="Heads that find antecedents", paper="Table 2",
        caption="One row per type of mention. Bar: how often a mention attends most to a correct "
        "antecedent in the best head (named on the right), with its 95 % interval; candidates are "
        "the earlier mentions, or all words. The head is chosen on some documents and scored on "
        "the others. Diamond: chosen and scored on all documents, as in the paper. Ticks: rules "
        f"that need no model and choose among mentions. {IN_BRACKETS}",
    ),
    Claim(
        "coreference-beats-head-match", partial(of_best_head, check_head_match),
        needs=("coreference-best", "coreference-contrasts"),
        says="A head finds antecedents over 10 points better than matching head words does (held "
        "out).",
        paper='"improving by over 10 accuracy points on the string-matching baseline": 65 % by '
        "head 5-4, head match 52 % (Table 2)",
    ),
    Claim(
        "coreference-is-near-rules", partial(of_best_head, check_rules),
        needs=("coreference-best",),
        says="A head finds antecedents nearly as well as the rules (here: at most 5 points worse, "
        "held out).",
        paper='"performing close to the rule-based system": 65 % by head 5-4, rules 69 % (Table 2)',
    ),
    Claim(
        "coreference-is-good-with-nominals", partial(of_best_head, check_nominal),
        needs=("coreference-best", "coreference-contrasts"),
        says="The head is particularly good with nominal mentions (here: relative to the rules it "
        "does better on them than on pronouns and on names, held out).",
        paper='"It is particularly good with nominal mentions": 58 % against 60 % of the rules; '
        "pronouns 64 against 70, names 73 against 77 (Table 2)",
    ),
    Claim(
        "links-are-longer-than-arcs", check_lengths, figure=None, is_of_data=True,
        needs=("coreference-length", "dependency-length"),
        made_by="--coref FILE --treebank FILE",
        says="Coreference links are usually longer than syntactic dependencies (here: on average, "
        "in words between head words; a finding about the data, not about the model).",
        paper="usually longer",
    ),
    *ANSWERS,
    FactMaker(("coreference-best",), antecedent_facts, has_summary=True),
    accuracy_facts(
        "antecedents", "coreference", WAYS, candidates=CANDIDATES[0], mention_type="all",
        system="head",
    ),
    PrintedTable("coreference-best", read_best),
    PageTable(
        "Table 2, antecedents", "--coref FILE.conllu", "coreference-best", build_table_2,
        name="table-2",
    ),
    *(
        Labels(
            KIND, "coreference-best", partial(find_labels, mention_type=mention_type),
            name=label, called=f"antecedents of {PLURALS[mention_type]}", short="coref",
            also=lambda label: "coreference anaphora antecedent mention",
        )
        for mention_type, label in LABELS.items()
    ),
])  # fmt: skip
