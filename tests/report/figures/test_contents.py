"""What single figures show: which rows, in which order, with which numbers."""

from typing import Any

import numpy as np
import pandas as pd

from headscope.analyses.dependency.show import best_relations
from headscope.analyses.distance.dendrogram import cut_tree, joints
from headscope.analyses.distance.tables import ordered_matrix
from headscope.view.figure import list_figures, render
from tests.report.figures.made import make_tables
from tests.report.figures.test_figure import data_of


def draw(name: str, tables: dict[str, pd.DataFrame]) -> Any:
    return list_figures()[name].draw(tables)


def test_a_class_of_the_users_own_has_a_panel_and_one_without_attention_has_none() -> None:
    tables = make_tables(2, 3, label="digits")
    special = tables["special-tokens"]
    special.loc[special["target"] == "first", "weight"] = 0.0
    shown = {row["split"] for row in data_of(draw("special-tokens", tables))}
    assert "digits" in shown
    assert not [name for name in shown if "first" in name]
    assert len(shown) == 5


def test_the_from_sep_panel_shows_attention_from_sep_alone() -> None:
    tables = make_tables(2, 3)
    special = tables["special-tokens"]
    special.loc[special["source"] == "sep", "weight"] = 0.25
    rows = data_of(draw("special-tokens-from-sep", tables))
    assert {row["weight"] for row in rows} == {0.25}


def test_small_values_keep_their_digits() -> None:
    tables = make_tables(2, 3)
    tables["gradient"]["gradient"] = 1.23456e-7
    assert {row["gradient"] for row in data_of(draw("gradient", tables))} == {1.235e-7}


def test_data_holds_only_what_is_drawn() -> None:
    tables = make_tables(2, 3)
    tables["position"] = tables["position"].assign(secret=1.0)
    (row, *_) = data_of(draw("position", tables))
    assert set(row) == {"layer", "head", "split", "weight", "low", "high", "label"}


def test_ablation_says_what_it_changes() -> None:
    tables = make_tables(2, 3)
    assert "change of the loss" in draw("ablation", tables).to_json()
    tables["ablation"]["effect"] = "cosine"
    assert "change of the hidden states" in draw("ablation", tables).to_json()


def test_relations_come_most_frequent_first_and_no_more_than_fit() -> None:
    tables = make_tables(2, 3)
    best = (
        tables["dependency-best"]
        .iloc[[0] * 60]
        .assign(relation=[f"r{place}" for place in range(60)], count=range(60))
    )
    rows = data_of(draw("dependency-best", {"dependency-best": best}))
    assert [row["relation"] for row in rows] == [f"r{place}" for place in range(59, 34, -1)]


def test_every_treebank_has_its_own_relations() -> None:
    best = make_tables(2, 3)["dependency-best"]
    rare = best.assign(count=1)
    both = pd.concat([best.assign(treebank="large"), rare.assign(treebank="small")])
    rows = data_of(draw("dependency-best", {"dependency-best": both}))
    assert {row["treebank"] for row in rows} == {"large", "small"}
    assert len(rows) == 2 * len(best)


def test_coreference_has_a_panel_for_each_window() -> None:
    rows = data_of(draw("coreference-best", make_tables(2, 3)))
    panels = {row["panel"] for row in rows}
    assert panels == {"of earlier mentions, 128 tokens", "of earlier mentions, 512 tokens"}


def test_a_heads_best_relation_is_that_furthest_above_its_own_baseline() -> None:
    columns = ["relation", "direction", "layer", "head", "accuracy", "count", "low", "high"]
    rows = [
        ("all", "d", 1, 1, 0.99, 900, 0.0, 1.0),  # over all words: no relation
        ("det", "d", 1, 1, 0.90, 300, 0.0, 1.0),
        ("obj", "d", 1, 1, 0.60, 300, 0.0, 1.0),
        ("rare", "d", 1, 1, 0.99, 3, 0.0, 1.0),  # too few words to say
    ]
    table = pd.DataFrame(rows, columns=columns)
    best = table.assign(baseline_accuracy=[0.0, 0.85, 0.3, 0.0])
    (found,) = best_relations({"dependency": table, "dependency-best": best}).to_dict("records")
    assert found["relation"] == "obj"
    assert np.isclose(found["gain"], 0.3)


def test_weights_of_words_and_of_root_have_scales_of_their_own() -> None:
    tables = make_tables(2, 3)
    weights = tables["probe-weights"]
    is_root = weights["direction"].isin(["opening", "closing"])
    weights["weight"] = np.where(is_root, -40.0, 2.0)
    spec = draw("probe-weights", tables).to_dict()
    domains = [grid["spec"]["encoding"]["color"]["scale"]["domain"] for grid in spec["vconcat"]]
    assert domains == [[-2.0, 2.0], [-40.0, 40.0]]


def test_the_matrix_holds_every_two_heads_in_the_dendrograms_order() -> None:
    tables = make_tables(3, 5)
    order = tables["layout"].sort_values("place")[["layer", "head"]].reset_index(drop=True)
    matrix = ordered_matrix(tables["distance"], order)
    heads = list(order.itertuples(index=False, name=None))
    for layer_a, head_a, layer_b, head_b, divergence, *_ in tables["distance"].itertuples(
        index=False
    ):
        row, column = heads.index((layer_a, head_a)), heads.index((layer_b, head_b))
        assert matrix[row, column] == matrix[column, row] == divergence
    assert (np.diag(matrix) == 0).all()


def test_a_dendrogram_joins_the_middles_of_its_parts_at_its_height() -> None:
    layout = pd.DataFrame({"place": [3, 1, 2]})
    merges = pd.DataFrame(
        {"merge": [4, 5], "left": [1, 4], "right": [3, 2], "divergence": [0.2, 0.6]}
    )
    found = list(joints(merges, layout).itertuples(index=False, name=None))
    assert found == [
        (4, 2.0, 0.0),
        (4, 2.0, 0.2),
        (4, 3.0, 0.2),
        (4, 3.0, 0.0),
        (5, 1.0, 0.0),
        (5, 1.0, 0.6),
        (5, 2.5, 0.6),
        (5, 2.5, 0.2),
    ]


def test_a_large_dendrogram_is_cut_at_clusters_and_large_clusters_into_parts() -> None:
    n = 90  # a chain: each merge takes one head more
    merges = pd.DataFrame(
        {
            "merge": range(n + 1, 2 * n),
            "left": [1, *range(n + 1, 2 * n - 1)],
            "right": range(2, n + 1),
            "divergence": np.linspace(0.1, 0.6, n - 1),
        }
    )
    layout = pd.DataFrame({"place": range(1, n + 1), "cluster": [1] * 60 + [2] * 30})
    groups = cut_tree(merges, layout)
    assert sorted(head for heads in groups.values() for head in heads) == [*range(1, n + 1)]
    assert max(map(len, groups.values())) == 40
    assert next(iter(groups.values())) == [*range(1, 41)]
    heads = pd.DataFrame({"layer": [1] * n, "head": range(1, n + 1)})
    labels = {"behaviour": "other", "behaviours": "other", "x": 0.0, "y": 0.0}
    tables = {"dendrogram": merges, "layout": layout.join(heads).assign(**labels)}
    spec = list_figures()["dendrogram"].draw(tables).to_dict()
    assert "params" in spec
    drawn = render(draw("dendrogram", tables), "svg").decode()
    assert drawn.count(">1-") == 40, "the heads of the open group have names"


def test_a_probe_that_the_paper_does_not_have_is_not_said_to_have_zero_there() -> None:
    tables = make_tables(2, 3)
    tables["probes"] = tables["probes"].assign(probe=["mine", "attention-only"])
    picture = render(draw("probes", tables), "svg").decode()
    assert "the paper (BERT-base, WSJ): 61.0%" in picture
    assert "the paper (BERT-base, WSJ): -" in picture
    assert "the paper (BERT-base, WSJ): 0" not in picture


def test_dots_lie_over_the_line_of_means_so_that_they_can_be_clicked() -> None:
    layers = draw("position", make_tables(2, 3)).to_dict()["spec"]["layer"]
    assert [layer["mark"]["type"] for layer in layers] == ["line", "circle"]  # no head stands out


def test_the_head_that_stands_out_has_its_name_beside_its_dot() -> None:
    tables = make_tables(3, 5)
    position = tables["position"].assign(weight=0.1)
    is_high = (position["layer"] == 2) & (position["head"] == 4) & (position["target"] == "next")
    tables["position"] = position.assign(weight=position["weight"].mask(is_high, 0.9))
    rows = data_of(draw("position", tables))
    named = [(row["layer"], row["head"], row["label"]) for row in rows if row["label"]]
    assert named == [(2, 4, "2-4")]


def test_a_loss_can_fall_but_hidden_states_only_differ() -> None:
    tables = make_tables(2, 3)
    assert "redblue" in draw("heads-ablation", tables).to_json()
    tables["ablation"]["effect"] = "cosine"
    assert "redblue" not in draw("heads-ablation", tables).to_json()
