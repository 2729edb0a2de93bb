"""The paper's tables in its own form, with its numbers beside the model's."""

import json
from io import StringIO
from math import nan

import pandas as pd
import pytest

from headscope.analyses.dependency.tables import PAPER_TABLE_1
from headscope.data.table import Tables
from headscope.errors import StudyError
from headscope.view.paper_tables import make_paper_tables, write_tables
from headscope.view.presentation import list_specs
from headscope.view.specs import PageTable
from headscope.view.table import TextTable

BERT = "BERT-base: head, accuracy % (offset %)"


def relation(name: str, accuracy: float, count: int = 500, **other: object) -> dict[str, object]:
    return {
        **other,
        "relation": name,
        "count": count,
        "layer": 3,
        "head": 2,
        "direction": "dependent-to-head",
        "accuracy": accuracy,
        "low": accuracy - 0.01,
        "high": accuracy + 0.01,
        "heldout_accuracy": accuracy - 0.02,
        "heldout_low": accuracy - 0.03,
        "heldout_high": accuracy - 0.01,
        "chosen_in": 7,
        "folds": 8,
        "offset": -2,
        "baseline_accuracy": 0.4,
        "heldout_difference": accuracy - 0.42,
        "p_value": 0.001,
    }


def mention(kind: str, accuracy: float, head: int, **other: object) -> dict[str, object]:
    return {
        **other,
        "mention_type": kind,
        "candidates": "mentions",
        "count": 100,
        "layer": 5,
        "head": head,
        "direction": "mention-to-antecedent",
        "accuracy": accuracy,
        "low": nan,
        "high": nan,
        "heldout_accuracy": accuracy,
        "nearest": 0.21,
        "head_match": 0.43,
        "rule_based": 0.65,
    }


def paper_tables(tables: Tables) -> list[TextTable]:
    return [table for page in list_specs(PageTable) for table in page.make(tables)]


def only(tables: Tables) -> TextTable:
    (found,) = paper_tables(tables)
    return found


def row(table: TextTable, name: str) -> dict[str, str]:
    (found,) = (row for row in table.rows if row[0] == name)
    return dict(zip(table.columns, found, strict=True))


def test_table_1_has_the_papers_rows_first_and_its_numbers_last() -> None:
    rows = [relation("case", 0.7), relation("obj", 0.9), relation("det", 0.8)]
    table = only({"dependency-best": pd.DataFrame(rows)})
    assert table.title == "Best heads by relation"
    firsts = [row[0].partition(" ")[0] for row in table.rows]
    assert firsts == [*PAPER_TABLE_1, "case"]
    assert row(table, "dobj (obj)") == {
        "relation": "dobj (obj)",
        "words": "500",
        "head": "3-2",
        "direction": "dep>head",
        "held out %": "88.0",
        "95 % interval": "87.0-89.0",
        "folds that chose it": "7/8",
        "on all data %": "90.0",
        "offset %": "40.0 (-2)",
        "p": "0.001",
        BERT: "8-10 86.8 (40.0)",
    }


def test_what_the_treebank_lacks_keeps_the_papers_side() -> None:
    table = only({"dependency-best": pd.DataFrame([relation("det", 0.8)])})
    assert row(table, "pobj")["held out %"] == "-"
    assert row(table, "pobj")[BERT] == "9-6 76.3 (34.6)"


def test_rare_relations_are_shown_only_where_the_paper_shows_them() -> None:
    rows = [relation("prt", 0.8, count=3), relation("vocative", 0.8, count=3)]
    names = [row[0] for row in only({"dependency-best": pd.DataFrame(rows)}).rows]
    assert "prt" in names
    assert "vocative" not in names


def test_every_treebank_has_a_table() -> None:
    rows = [relation("det", 0.8, treebank="a.conllu"), relation("det", 0.7, treebank="b.conllu")]
    first, second = paper_tables({"dependency-best": pd.DataFrame(rows)})
    assert (first.title, row(first, "det")["on all data %"]) == (
        "Best heads by relation (a.conllu)",
        "80.0",
    )
    assert row(second, "det")["on all data %"] == "70.0"
    assert first.title != second.title


def test_table_2_has_a_line_for_each_system_and_one_head_for_all_types() -> None:
    best = pd.DataFrame([mention("all", 0.7, 4), mention("nominal", 0.66, 1)])
    every = pd.DataFrame(
        [mention("all", 0.7, 4), mention("nominal", 0.5, 4), mention("nominal", 0.66, 1)]
    )
    table = only({"coreference-best": best, "coreference": every.assign(system="head")})
    assert table.columns == ("system", "all", "nominal", "BERT-base: all", "BERT-base: nominal")
    assert row(table, "same head word")["all"] == "43.0"
    assert row(table, "same head word")["BERT-base: nominal"] == "40"
    assert row(table, "head 5-4 (best over all, among mentions)")["nominal"] == "50.0"
    assert row(table, "best head of each type")["nominal"] == "66.0 (5-1)"
    assert row(table, "neural system (paper only)")["BERT-base: all"] == "83"


def test_table_2_shows_the_papers_protocol_before_ours() -> None:
    rows = [
        mention("all", 0.7, 4, window=128, cut="truncate"),
        mention("all", 0.8, 4, window=512, cut="split"),
    ]
    ours = pd.DataFrame(rows)
    among_words = ours.assign(candidates="words", head=2, accuracy=[0.4, 0.5])
    from_antecedent = among_words.assign(direction="antecedent-to-mention", head=3, accuracy=0.9)
    every = pd.concat([ours, among_words, from_antecedent]).assign(system="head")
    first, second = paper_tables({"coreference-best": ours, "coreference": every})
    name = "head 5-2 (from the mention, among all words)"
    systems = [line[0] for line in first.rows]
    assert systems.index(name) < systems.index("head 5-4 (best over all, among mentions)")
    assert (row(first, name)["all"], row(second, name)["all"]) == ("40.0", "50.0")
    assert row(first, name)["BERT-base: all"] == "65"
    assert first.title.endswith("(128 tokens, truncated documents)")
    assert "documents are truncated, as in the paper" in first.note
    assert "documents are whole, in windows" in second.note


def test_table_2_says_how_many_singletons_there_are_and_what_rules_make_of_them() -> None:
    with_them = {f"{rule}_with_singletons": 0.1 for rule in ("nearest", "head_match", "rule_based")}
    best = pd.DataFrame([{**mention("all", 0.7, 4), "singletons": 1403, **with_them}])
    note = only({"coreference-best": best}).note
    assert "1,403 singletons" in note
    assert "nearest mention 10.0, same head word 10.0, rules 10.0 %" in note


def test_table_1_says_where_labels_differ_and_where_the_paper_slipped() -> None:
    universal = [relation("case", 0.7), relation("mark", 0.9), relation("nmod:poss", 0.8)]
    stanford = [relation("pobj", 0.7), relation("mark", 0.9), relation("poss", 0.8)]
    ours, theirs = (only({"dependency-best": pd.DataFrame(r)}) for r in (universal, stanford))
    assert row(ours, "mark †")["on all data %"] == "90.0"
    assert row(ours, "poss (nmod:poss) †")["on all data %"] == "80.0"
    assert row(theirs, "mark")["on all data %"] == "90.0"
    assert "†" not in theirs.note
    for table in (ours, theirs):
        assert row(table, "auxpass ‡")[BERT] == "4-10 82.5 (40.5)"
        assert "most likely a slip" in table.note


def test_table_1_shows_what_a_decoder_can_see() -> None:
    rows = pd.DataFrame([relation("det", 0.4), relation("pobj", 0.8)])
    table = only({"dependency-best": rows.assign(visible_share=0.5, visible_accuracy=0.8)})
    assert row(table, "det")["visible %"] == "50.0"
    assert row(table, "det")["accuracy % of visible"] == "80.0"
    whole = only({"dependency-best": rows.assign(visible_share=1.0, visible_accuracy=0.8)})
    assert "visible %" not in whole.columns


def test_every_window_has_a_table_with_its_own_numbers() -> None:
    windows = {128: 0.7, 512: 0.6}
    rows = [mention("all", accuracy, 4, window=window) for window, accuracy in windows.items()]
    best = pd.DataFrame(rows)
    tables = paper_tables({"coreference-best": best, "coreference": best.assign(system="head")})
    found = [row(table, "head 5-4 (best over all, among mentions)")["all"] for table in tables]
    assert found == ["70.0", "60.0"]
    assert [table.title for table in tables] == [
        "Antecedents by type of mention (128 tokens)",
        "Antecedents by type of mention (512 tokens)",
    ]


def test_table_3_has_the_papers_probes_in_its_order() -> None:
    rows = [
        {"probe": name, "uas": uas, "low": uas - 0.01, "high": uas + 0.01, "sentences": 2000}
        for name, uas in {"best-offset": 0.3, "attention-only": 0.6}.items()
    ]
    table = only({"probes": pd.DataFrame(rows)})
    assert row(table, "attention-only") == {
        "probe": "attention-only",
        "UAS %": "60.0",
        "95 % interval": "59.0-61.0",
        "attention-only is above it by": "",
        "training sentences": "2,000",
        "BERT-base: UAS %": "61",
    }
    assert row(table, "attention-and-words")["UAS %"] == "-"
    assert row(table, "attention-and-words")["BERT-base: UAS %"] == "77"
    assert row(table, "structural-probe")["BERT-base: UAS %"] == "80 UUAS"
    assert [line[0] for line in table.rows] == [
        *("right-branching", "distances-and-words", "random-init-attention-and-words"),
        *("attention-only", "attention-and-words", "structural-probe"),
        "best-offset",  # which the paper does not have
    ]


def test_nothing_measured_gives_no_tables() -> None:
    assert paper_tables({"dependency-best": pd.DataFrame(), "position": pd.DataFrame()}) == []


def test_a_table_for_a_paper_has_few_columns_and_stresses_what_a_head_finds() -> None:
    rows = [relation("obj", 0.9), {**relation("det", 0.3), "p_value": 0.5}]
    [table] = make_paper_tables("table-1", {"dependency-best": pd.DataFrame(rows)})
    assert 7 <= len(table.columns) <= 9
    stressed = {table.rows[row][0] for row, _ in table.bold}
    assert stressed == {"dobj (obj)"}
    latex = write_tables([table], "latex")
    assert "\\toprule" in latex
    assert "\\caption{" in latex
    assert latex.count("\\textbf{") == 1
    assert latex.count("\\\\\n") == 1 + len(table.rows)
    assert write_tables([table], "html").count("<strong>") == 1
    assert "**88.0**" in write_tables([table], "markdown")


def test_tables_of_several_corpora_are_one_table_as_data() -> None:
    rows = [relation("obj", 0.9, treebank=name) for name in ("a.conllu", "b.conllu")]
    made = make_paper_tables("table-1", {"dependency-best": pd.DataFrame(rows)})
    frame = pd.read_csv(StringIO(write_tables(made, "csv")))
    assert frame["table"].nunique() == 2
    assert len(json.loads(write_tables(made, "json"))) == len(frame)


def test_of_table_2_a_paper_has_the_rows_of_the_papers_protocol() -> None:
    best = pd.DataFrame([mention(kind, 0.6, 4) for kind in ("all", "pronoun")])
    [whole] = [t for page in list_specs(PageTable) for t in page.make({"coreference-best": best})]
    [table] = make_paper_tables("table-2", {"coreference-best": best})
    assert len(table.rows) == whole.n_first < len(whole.rows)
    assert table.rows == whole.rows[: whole.n_first]


@pytest.mark.parametrize(("name", "format"), [("table-9", "latex"), ("table-1", "word")])
def test_an_unknown_table_or_format_is_named_with_those_there_are(name: str, format: str) -> None:
    rows = [relation("obj", 0.9)]
    with pytest.raises(StudyError) as error:
        write_tables(make_paper_tables(name, {"dependency-best": pd.DataFrame(rows)}), format)
    assert (name if name == "table-9" else format) in str(error.value)


def test_a_run_without_the_tables_says_what_to_measure() -> None:
    with pytest.raises(StudyError, match="--train"):
        make_paper_tables("table-3", {})
