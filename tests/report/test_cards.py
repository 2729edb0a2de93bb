"""A head's card says what was planted, and nothing that was not measured."""

import json
import re
import time
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import headscope as hs
from headscope.cli import app
from headscope.errors import StudyError
from headscope.view.card import Card, cards_of_kind, make_card, make_cards, read_head

Tables = dict[str, pd.DataFrame]
N_LAYERS, N_HEADS = 3, 5


def places(n_layers: int = N_LAYERS, n_heads: int = N_HEADS) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(1, n_layers + 1) for head in range(1, n_heads + 1)]


def shares(planted: dict[tuple[int, int, str], float], *targets: str, **other: str) -> pd.DataFrame:
    rows = []
    for layer, head in places():
        for target in targets:
            weight = planted.get((layer, head, target), 0.05)
            row = {"layer": layer, "head": head, **other, "target": target, "weight": weight}
            rows.append({**row, "low": weight - 0.02, "high": weight + 0.03})
    return pd.DataFrame(rows)


def relation(name: str, layer: int, head: int, accuracy: float) -> dict[str, object]:
    return {
        "relation": name,
        "count": 200,
        "layer": layer,
        "head": head,
        "direction": "head-to-dependent",
        "accuracy": accuracy,
        "low": nan,
        "high": nan,
        "heldout_accuracy": accuracy - 0.01,
        "heldout_low": accuracy - 0.05,
        "heldout_high": accuracy + 0.03,
        "chosen_in": 7,
        "folds": 8,
        "offset": -2,
        "baseline_accuracy": 0.4,
        "heldout_difference": accuracy - 0.41,
        "p_value": 0.001,
    }


@pytest.fixture
def tables() -> Tables:
    neighbours = shares({(1, 2, "previous"): 0.82, (2, 3, "next"): 0.3}, "previous", "self", "next")
    special = shares({(3, 1, "sep"): 0.73}, "cls", "sep", "other", source="all")
    entropy = pd.DataFrame(
        [
            {"layer": la, "head": h, "rows": "all", "nats": 4.5 if (la, h) == (1, 5) else 1.5}
            | {"low": 1.4, "high": 4.6, "uniform": 4.8}
            for la, h in places()
        ]
    )
    breadth = {"share": "nats", "share_low": "low", "share_high": "high"}
    entropy = entropy.assign(**{name: entropy[of] / 4.8 for name, of in breadth.items()})
    best = pd.DataFrame([relation("obj", 2, 4, 0.868), relation("<i>", 2, 4, 0.71)])
    return {
        "position": neighbours,
        "special-tokens": special,
        "entropy": entropy,
        "dependency-best": best,
    }


def topics(card: Card) -> dict[str, str]:
    return {fact.topic: fact.text for fact in card.facts}


@pytest.mark.parametrize(
    ("place", "summary"),
    [
        ((1, 2), "looks at the previous token (82 %)"),
        ((3, 1), "looks at the closing tokens (73 %)"),
        ((1, 5), "attends broadly (94 % of even attention)"),
        ((2, 4), "finds obj (direct object, 86 %), <i> (70 %)"),
        ((2, 3), "no clear function; looks most at the next token (30 %)"),
    ],
)
def test_a_planted_head_is_told_by_its_gist(
    tables: Tables, place: tuple[int, int], summary: str
) -> None:
    card = make_card(tables, *place)
    assert card.summary == summary
    assert card.title == f"Head {place[0]}-{place[1]}"


def test_a_card_has_numbers_with_intervals_and_ranks(tables: Tables) -> None:
    card = topics(make_card(tables, 1, 2))
    assert card["behaviour"] == "previous token"
    assert "previous token 82.0 % [80.0-85.0] (rank 1 of 15)" in card["position"]
    assert "1.50 nats [1.40-4.60] (rank 2 of 15; 31.3 % of even attention, 4.80)" in card["entropy"]


def test_a_best_head_has_its_relation_with_baseline_and_direction(tables: Tables) -> None:
    text = topics(make_card(tables, 2, 4))["best head for obj"]
    assert text == (
        "85.8 % [81.8-89.8] held out (best offset 40.0 %, -2); the dependent gets its strongest "
        "attention from its head"
    )


def test_cards_are_made_where_nothing_could_be_held_out(tables: Tables) -> None:
    names = ["heldout_accuracy", "heldout_low", "heldout_high", "heldout_difference"]
    best = tables["dependency-best"].astype(dict.fromkeys(names, object))
    best[["chosen_in", "folds"]] = 0
    best[names] = None
    cards = make_cards({**tables, "dependency-best": best})
    assert len(cards) == N_LAYERS * N_HEADS
    said = " ".join(f"{card.summary} {fact.text}" for card in cards for fact in card.facts)
    assert not {"None", "nan"} & set(said.split())


def test_a_head_that_few_folds_chose_has_no_held_out_score(tables: Tables) -> None:
    best = tables["dependency-best"].assign(chosen_in=3)
    cards = make_cards({**tables, "dependency-best": best})
    said = " ".join(f"{card.summary} {fact.text}" for card in cards for fact in card.facts)
    assert "only 3 of 8 folds chose it" in said
    assert " held out (" not in said
    assert "the best head for" not in said


def test_the_relation_a_head_finds_best_is_told_even_where_an_offset_is_better() -> None:
    columns = ["relation", "direction", "layer", "head", "count", "accuracy", "low", "high"]
    rows = [
        ("det", "dependent-to-head", 1, 1, 90, 0.6, 0.5, 0.7),
        ("obj", "head-to-dependent", 1, 1, 90, 0.5, 0.4, 0.6),
        ("obj", "dependent-to-head", 1, 2, 90, 0.2, 0.1, 0.3),
        ("rare", "dependent-to-head", 1, 2, 9, 1.0, 1.0, 1.0),
    ]
    offsets = [("det", 1, 0.55), ("det", 2, 0.1), ("obj", -2, 0.3), ("rare", 1, 0.0)]
    tables = {
        "dependency": pd.DataFrame(rows, columns=columns),
        "dependency-offset": pd.DataFrame(offsets, columns=["relation", "offset", "accuracy"]),
    }
    topic = "relations, most above the best offset first"
    first, second = make_cards(tables)
    assert topics(first)[topic] == (
        "obj 50.0 % [40.0-60.0] (offset -2 gets 30.0 %; head>dep), "
        "det 60.0 % [50.0-70.0] (offset +1 gets 55.0 %; dep>head)"
    )
    assert topics(second)[topic] == "obj 20.0 % [10.0-30.0] (offset -2 gets 30.0 %; dep>head)"
    parts = next(fact.parts for fact in first.facts if fact.topic == topic)
    assert [(part.label, part.bar, part.mark) for part in parts] == [
        ("obj", 0.5, 0.3),
        ("det", 0.6, 0.55),
    ]


def test_the_best_head_for_something_never_stands_out_for_nothing(tables: Tables) -> None:
    best = tables["dependency-best"].assign(p_value=0.9)  # not clearly better than an offset
    card = make_card({**tables, "dependency-best": best}, 2, 4)
    assert card.summary == (
        "the best head for obj (direct object), at 85.8 %, the best head for <i>, at 70.0 %"
    )
    assert "object" in card.words


def test_a_head_is_found_by_synonyms_of_what_it_does(tables: Tables) -> None:
    assert "before" in make_card(tables, 1, 2).words.split()
    assert "separator" in make_card(tables, 3, 1).words.split()
    assert make_card(tables, 2, 3).words == "", "not by what it is only nearest to"


def test_only_what_was_measured_is_on_the_card(tables: Tables) -> None:
    card = make_card({"position": tables["position"]}, 1, 1)
    assert [fact.topic for fact in card.facts] == ["position"]


def test_classes_that_a_model_does_not_have_are_left_out(tables: Tables) -> None:
    table = tables["special-tokens"]
    table.loc[table["target"] == "cls", ["weight", "low", "high"]] = 0.0
    assert "opening" not in topics(make_card(tables, 1, 1))["special tokens"]


def test_a_decoder_has_no_attention_to_the_next_token_on_its_card(tables: Tables) -> None:
    table = tables["position"]
    table.loc[table["target"] == "next", ["weight", "low", "high"]] = 0.0
    assert "next token" not in topics(make_card(tables, 1, 1))["position"]


def test_ablation_gradient_probes_and_neighbours_are_told() -> None:
    head = {"layer": 1, "head": 1}
    ends = {"low": 0.01, "high": 0.02}
    tables = {
        "ablation": pd.DataFrame(
            [{**head, "mode": "zero", "effect": "loss", "change": 0.015, **ends, "base": 2.0}]
        ),
        "gradient": pd.DataFrame([{**head, "target": "sep", "gradient": 0.012, **ends}]),
        "distance-nearest": pd.DataFrame(
            [{**head, "rank": 1, "other_layer": 2, "other_head": 3, "divergence": 0.012, **ends}]
        ),
        "probe-weights": pd.DataFrame(
            [
                {**head, "probe": "attention-only", "direction": "opening", "weight": -2.5},
                {**head, "probe": "random-init-attention-only", "direction": "opening"},
            ]
        ),
    }
    assert topics(make_card(tables, 1, 1)) == {
        "gradient of the loss": "to closing tokens 0.012 [0.01 to 0.02]",
        "ablation": "output removed 0.015 [0.01 to 0.02] (rank 1 of 1; change of the loss)",
        "nearest heads": "2-3 (0.012 nats [0.010-0.020])",
        "weight in the probe attention-only": "opening -2.50 (size: rank 1 of 1)",
    }


@pytest.mark.parametrize("name", ["8x10", "4-1", "1-6", "0-1", "3", "", "-1-2", "1-2-3", "²-1"])
def test_a_head_that_is_not_there_is_an_error_with_the_range(tables: Tables, name: str) -> None:
    with pytest.raises(StudyError, match="layers 1-3 and heads 1-5"):
        read_head(name, tables)


def test_a_head_is_read_from_its_name(tables: Tables) -> None:
    assert read_head("3-5", tables) == (3, 5)


def test_tables_without_heads_say_what_to_run() -> None:
    with pytest.raises(StudyError, match="no table about heads"):
        make_card({}, 1, 1)


def test_hundreds_of_heads_take_little_time() -> None:
    draws = np.random.default_rng(0)
    heads = places(24, 16)
    relations = [f"r{i}" for i in range(40)]
    rows = [
        (name, way, layer, head, 100)
        for name in relations
        for way in ("dependent-to-head", "head-to-dependent")
        for layer, head in heads
    ]
    columns = ["relation", "direction", "layer", "head", "count"]
    accuracy = draws.random(len(rows))
    table = pd.DataFrame(rows, columns=columns).assign(accuracy=accuracy, low=0.1, high=0.9)
    offsets = pd.DataFrame({"relation": relations, "offset": 1, "accuracy": 0.3})
    start = time.perf_counter()
    cards = make_cards({"dependency": table, "dependency-offset": offsets})
    assert len(cards) == 384
    assert time.perf_counter() - start < 3


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "demo"
    only = ["position", "special-tokens", "entropy", "dependency", "coreference"]
    files = {"text": "starter", "treebank": "starter", "coref": "starter"}
    hs.analyze("demo", **files, only=only, limit=12, out=folder)
    return folder


def test_every_number_of_a_real_run_is_in_its_tables(run_folder: Path) -> None:
    tables = hs.load_run(run_folder).tables
    cards = make_cards(tables)
    assert len(cards) == 72
    known = {f"{100 * value:.1f}" for value in _all_numbers(tables)}
    known |= {f"{100 * value:.1f}" for value in tables["entropy"].eval("nats / uniform")}
    for card in cards:
        for fact in card.facts:
            for number in re.findall(r"(\d+\.\d) %", fact.text):
                assert number in known, f"{card.title}, {fact.topic}: {fact.text}"


def _all_numbers(tables: Tables) -> list[float]:
    return [
        float(value)
        for table in tables.values()
        for value in table.select_dtypes("float").to_numpy().ravel()
        if not np.isnan(value)
    ]


def test_cards_without_facts_say_the_same_in_short(run_folder: Path) -> None:
    tables = hs.load_run(run_folder).tables
    whole, short = (cards_of_kind(tables, has_facts=has) for has in (True, False))
    said = [[(card.summary, card.labels, card.words, card.shares) for card in own]
            for own in (whole, short)]  # fmt: skip
    assert said[0] == said[1]
    assert any("the best head for" in card.summary for card in whole)
    assert sum(len(card.facts) for card in short) < sum(len(card.facts) for card in whole)


def test_the_command_prints_a_card(run_folder: Path) -> None:
    printed = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["card", str(run_folder), "1-3"])
    assert printed.exit_code == 0
    assert "looks at the previous token" in printed.stdout
    as_json = CliRunner().invoke(app, ["card", str(run_folder), "1-3", "--format", "json"])
    assert json.loads(as_json.stdout)[0]["topic"] == "summary"
    wrong = CliRunner().invoke(app, ["card", str(run_folder), "8x10"])
    assert wrong.exit_code == 2
    assert "layers 1-6 and heads 1-12" in wrong.stderr
