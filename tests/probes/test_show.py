"""How probes are shown: Table 3, what the terminal prints, and the facts of heads."""

from math import nan

import pandas as pd

from headscope.probes.show import (
    PRESENTATION,
    build_table_3,
    read_differences,
    read_probes,
    read_relations,
)
from headscope.registry import load_presentations
from headscope.view.facts import FactMaker
from headscope.view.specs import PageTable
from headscope.view.table import TextTable


def scores(**uas: float) -> pd.DataFrame:
    rows = [
        {
            "probe": name.replace("_", "-"),
            "uas": value,
            "low": value - 0.01,
            "high": value + 0.01,
            "uas_with_punctuation": value - 0.1,
            "uuas": value + 0.1,
            "mst_uas": nan,
            "las": nan,
            "seeds": 5,
            "sentences": 2000,
            "parameters": 1153,
        }
        for name, value in uas.items()
    ]
    return pd.DataFrame(rows)


def row(table: TextTable, name: str) -> dict[str, str]:
    (found,) = (row for row in table.rows if row[0] == name)
    return dict(zip(table.columns, found, strict=True))


def test_all_probes_share_one_presentation() -> None:
    shown = [part for part in load_presentations().values() if part is PRESENTATION]
    assert len(shown) == 1


def difference(probe: str, other: str, value: float, p_value: float = 0.0001) -> dict[str, object]:
    ends = {"low": value - 0.01, "high": value + 0.01}
    return {"probe": probe, "other": other, "difference": value, **ends, "p_value": p_value}


def test_table_3_says_by_how_much_the_strongest_probe_is_above_each_other() -> None:
    tables = {
        "probes": scores(best_offset=0.3, attention_only=0.6, attention_and_words=0.7),
        "probe-differences": pd.DataFrame(
            [
                difference("attention-only", "best-offset", 0.3),
                difference("attention-and-words", "attention-only", 0.1),
            ]
        ),
    }
    (table,) = build_table_3(tables)
    column = "attention-and-words is above it by"
    assert row(table, "attention-only")[column] == "+10.0 points [+9.0 to +11.0]"
    assert row(table, "best-offset")[column] == row(table, "attention-and-words")[column] == ""
    assert row(table, "right-branching")[column] == "-"


def test_the_terminal_compares_probes_in_pairs() -> None:
    rows = [difference("attention-only", "best-offset", 0.3)]
    bare = {**difference("attention-only", "attention-only", 0.0, nan), "low": nan, "high": nan}
    (table,) = read_differences(pd.DataFrame([*rows, bare]), 0)
    assert table.rows == (
        ("attention-only", "best-offset", "+30.0 points [+29.0 to +31.0]", "<.001"),
        ("attention-only", "attention-only", "+0.0 points", "-"),
    )


def test_without_probes_there_is_no_table_3() -> None:
    (page,) = PRESENTATION.specs(PageTable)
    assert page.make({}) == []
    assert page.make({"probes": scores()}) == []


def test_the_terminal_has_the_papers_uas_beside_each_probe() -> None:
    (table,) = read_probes(scores(best_offset=0.3, attention_only=0.6), 0)
    assert row(table, "attention-only") == {
        "probe": "attention-only",
        "UAS %": "60.0 [59.0-61.0]",
        "with punct": "50.0",
        "UUAS": "70.0",
        "MST UAS": "-",
        "LAS": "-",
        "seeds": "5",
        "sentences": "2,000",
        "parameters": "1,153",
        "paper": "61",
    }
    assert row(table, "best-offset")["paper"] == ""
    bare = scores(attention_only=0.6).assign(low=nan, high=nan)
    assert row(read_probes(bare, 0)[0], "attention-only")["UAS %"] == "60.0"


def relation(name: str, probe: str, count: int, gain: float) -> dict[str, object]:
    best = {"best_layer": 3, "best_head": 2, "best_direction": "head-to-dependent"}
    scored = {"accuracy": 0.8, "best_head_accuracy": 0.8 - gain, "gain": gain}
    scored |= {"gain_low": gain - 0.02, "gain_high": gain + 0.02}
    return {"relation": name, "probe": probe, "count": count, **best, **scored}


def test_relations_of_the_strongest_probe_stand_beside_their_best_heads() -> None:
    rows = [
        relation("det", "attention-only", 90, 0.3),
        relation("det", "attention-and-words", 90, 0.25),
        relation("obj", "attention-and-words", 70, nan),
        relation("rare", "attention-and-words", 3, 0.1),
    ]
    (table,) = read_relations(pd.DataFrame(rows), 50)
    assert table.columns[2] == "attention-and-words %"
    assert table.rows == (
        ("det", "90", "80.0", "3-2 (h>d)", "55.0", "+25.0 points [+23.0 to +27.0]"),
        ("obj", "70", "80.0", "", "", ""),
    )
    (alone,) = read_relations(pd.DataFrame(rows[:1]), 50)
    assert alone.columns[2] == "attention-only %"
    assert read_relations(pd.DataFrame([relation("det", "best-offset", 90, 0.1)]), 50) == []


def test_a_head_is_told_its_weights_in_the_probe_of_the_model_itself() -> None:
    rows = [
        {"probe": probe, "layer": 1, "head": head, "direction": "opening", "weight": weight}
        for probe in ("attention-only", "random-init-attention-only")
        for head, weight in ((1, 0.5), (2, -2.5))
    ]
    rows.append({"probe": "attention-only", "direction": "root", "weight": 1.0})
    (maker,) = PRESENTATION.specs(FactMaker)
    facts = dict(maker.make({"probe-weights": pd.DataFrame(rows)}))
    assert {place: fact.text for place, fact in facts.items()} == {
        (1, 1): "opening +0.50 (size: rank 2 of 2)",
        (1, 2): "opening -2.50 (size: rank 1 of 2)",
    }
    assert {fact.topic for fact in facts.values()} == {"weight in the probe attention-only"}
