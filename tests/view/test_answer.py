"""The answer in short: sentences from tables, the best of them chosen, in plain English."""

from math import nan

import pandas as pd
import pytest

from headscope.analyses.gradient import UPPER
from headscope.data.table import join_kinds
from headscope.view.answer import choose_answers, count_heads
from headscope.view.judge import Passing
from headscope.view.presentation import Presentation, list_specs
from headscope.view.specs import Answer, AnswerMaker, Figure
from headscope.view.terminal import describe_answers

Tables = dict[str, pd.DataFrame]


def shares(*rows: tuple[int, int, str, float], width: float = 0.01) -> pd.DataFrame:
    columns = ["layer", "head", "target", "weight"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(low=table["weight"] - width, high=table["weight"] + width)


def relation(name: str, layer: int, head: int, **changed: object) -> dict[str, object]:
    return {
        "relation": name,
        "count": 200,
        "layer": layer,
        "head": head,
        "direction": "dependent-to-head",
        "heldout_accuracy": 0.903,
        "heldout_low": 0.85,
        "heldout_high": 0.94,
        "chosen_in": 7,
        "folds": 8,
        "accuracy": 0.91,
        "low": 0.86,
        "high": 0.95,
        "offset": 1,
        "baseline_accuracy": 0.571,
        "heldout_difference": 0.33,
        "difference_low": 0.25,
        "difference_high": 0.4,
        "p_value": 0.001,
        **changed,
    }


def texts(tables: Tables) -> list[str]:
    return [answer.text for answer in choose_answers(tables)]


# One, several, many and no heads.


def test_heads_are_counted_and_named_with_their_shares() -> None:
    rows = [(3, 3, "previous", 0.974), (1, 7, "previous", 0.53), (1, 1, "previous", 0.1)]
    (answer,) = choose_answers({"position": shares(*rows)})
    assert answer.text == "2 of 3 heads look at the previous token: 3-3 (97 %) and 1-7 (53 %)."
    assert answer.detail == "3-3 97.4 % [96.4-98.4], 1-7 53.0 % [52.0-54.0]."
    assert answer.heads == ("3-3", "1-7")
    assert answer.figure == "position"
    one = texts({"position": shares(*rows[::2])})
    assert one == ["1 of 2 heads looks at the previous token: 3-3 (97 %)."]


def test_of_many_heads_the_strongest_are_named() -> None:
    rows = [(1, head, "next", 0.6 + head / 100) for head in range(1, 12)]
    assert texts({"position": shares(*rows)}) == [
        "11 of 11 heads look at the next token, most of all 1-11 (71 %), 1-10 (70 %) and 1-9 "
        "(69 %)."
    ]


def test_that_no_head_does_something_is_said_with_what_comes_closest() -> None:
    rows = [(1, 1, "previous", 0.2), (2, 3, "next", 0.34), (2, 3, "self", 0.1)]
    assert texts({"position": shares(*rows)}) == [
        "No head puts over half of its attention on a neighbour or the token itself; the closest "
        "is 2-3 (34 % on the next token)."
    ]


def test_without_intervals_the_detail_has_the_numbers_alone() -> None:
    table = shares((1, 2, "previous", 0.9)).assign(low=nan, high=nan)
    (answer,) = choose_answers({"position": table})
    assert "undecided" in answer.text
    assert answer.detail == "1-2 90.0 %."


def test_empty_and_unknown_tables_give_no_answer() -> None:
    assert choose_answers({}) == []
    empty = shares((1, 1, "previous", 0.9)).iloc[:0]
    assert choose_answers({"position": empty, "mine": pd.DataFrame({"x": [1]})}) == []


# Special tokens, of encoders and decoders.


def special(target: str, weight: float, step: dict[str, float] | None = None) -> Tables:
    row = {"layers": "all", "source": "all", "target": target, "weight": weight}
    ends = {"low": weight - 0.05, "high": weight + 0.05}
    tables = {"special-tokens-layers": pd.DataFrame([{**row, **ends}])}
    if step:
        ratio = step["ratio"]
        numbers = {"low": nan, "high": nan, "ratio_low": ratio - 0.1, "ratio_high": ratio + 0.1}
        numbers |= step
        tables["special-tokens-steps"] = pd.DataFrame([{"target": target, **numbers}])
    return tables


def test_attention_to_a_sink_is_told_with_the_layer_where_it_rises() -> None:
    step = {"layer": 5, "before": 0.05, "after": 0.33, "ratio": 6.6}
    assert texts(special("sep", 0.24, step)) == [
        "From layer 5 on, 33 % of attention goes to the closing token ([SEP]); in earlier layers "
        "5 %."
    ]
    flat = {**step, "before": 0.3, "ratio": 1.1}
    assert texts(special("sep", 0.24, flat)) == [
        "24 % of all attention goes to the closing token ([SEP])."
    ]
    unsure = {**step, "ratio_low": 0.9}
    assert texts(special("sep", 0.24, unsure)) == texts(special("sep", 0.24, flat))


def test_a_decoder_has_its_first_token_as_a_sink_and_no_next_token() -> None:
    position = shares((1, 1, "previous", 0.7), (1, 1, "next", 0.0))
    said = texts({**special("first", 0.62), "position": position})
    assert said == [
        "62 % of all attention goes to the first token.",
        "1 of 1 heads looks at the previous token: 1-1 (70 %).",
    ] or said == [
        "1 of 1 heads looks at the previous token: 1-1 (70 %).",
        "62 % of all attention goes to the first token.",
    ]


# Relations.


def test_a_relation_is_told_in_plain_words_beside_the_fixed_distance() -> None:
    best = pd.DataFrame([relation("det", 5, 5), relation("case", 5, 5, heldout_difference=0.2)])
    (first, *_) = choose_answers({"dependency-best": best})
    assert first.text == (
        "Head 5-5: a determiner attends most to its noun in 90 of 100 cases (held out); the best "
        "fixed distance is right in 57."
    )
    assert "90.3 % [85.0-94.0]" in first.detail
    assert "also the best head for case (90.3 %)" in first.detail


@pytest.mark.parametrize(
    ("name", "direction", "expected"),
    [
        ("aux", "dependent-to-head", "an auxiliary attends most to its verb"),
        ("obj", "head-to-dependent", "a direct object gets its strongest attention from its verb"),
        ("xyz", "dependent-to-head", "a dependent of xyz attends most to its head"),
        ("cc", "dependent-to-head", "a conjunction attends most to the word that it joins"),
    ],
)
def test_directions_and_unknown_relations(name: str, direction: str, expected: str) -> None:
    best = pd.DataFrame([relation(name, 2, 3, direction=direction)])
    assert f"Head 2-3: {expected} in " in texts({"dependency-best": best})[0]


def test_where_columns_are_read_the_choice_of_the_row_is_told_too() -> None:
    row = relation("case", 2, 3, direction="head-to-dependent", choice_share=0.044)
    (said, *_) = texts({"dependency-best": pd.DataFrame([row])})
    assert "the noun itself attends most to it in 4)" in said


def test_a_relation_that_no_head_surely_finds_is_not_claimed() -> None:
    best = pd.DataFrame([relation("det", 5, 5, p_value=0.3), relation("punct", 1, 1)])
    assert texts({"dependency-best": best}) == [
        "No head finds a syntactic relation clearly better than a fixed distance does."
    ]


def test_a_head_that_few_folds_chose_is_not_given_the_score_of_others() -> None:
    best = pd.DataFrame([relation("det", 5, 5, chosen_in=3)])
    said, *_ = texts({"dependency-best": best})
    assert said.startswith("The best head (5-5 overall, but it varies with the documents): ")


def test_of_one_document_it_is_said_that_nothing_was_held_out() -> None:
    missing = ["heldout_accuracy", "heldout_low", "heldout_difference", "p_value", "chosen_in"]
    alone = dict.fromkeys([*missing, "folds"], nan)
    best = pd.DataFrame([relation("det", 5, 5, **alone)])
    (said,) = texts({"dependency-best": best})
    assert said.startswith("Head 5-5: ")
    assert "91 of 100 cases (chosen on the same words)" in said
    assert "undecided" in said


def antecedents(**changed: object) -> dict[str, object]:
    best = {"layer": 5, "head": 4, "mention_type": "all", "candidates": "mentions", "count": 90}
    best |= {"accuracy": 0.8, "heldout_accuracy": 0.75, "heldout_low": 0.7, "heldout_high": 0.8}
    best |= {"nearest": 0.3, "head_match": 0.6, "rule_based": 0.7, "heldout_difference": 0.05}
    best |= {"difference_low": 0.02, "difference_high": 0.08}
    best |= {"chosen_in": 8, "folds": 8, "window": 128, "direction": "antecedent-to-mention"}
    return {**best, **changed}


def test_antecedents_are_told_with_candidates_direction_and_the_strongest_baseline() -> None:
    (said,) = texts({"coreference-best": pd.DataFrame([antecedents()])})
    assert said.startswith("Head 5-4 finds")
    for part in ("75 of 100", "the rules", " 70.", "annotated mentions", "from the antecedent"):
        assert part in said


@pytest.mark.parametrize(
    ("ends", "verb"),
    [((-0.05, 0.15), "No head clearly beats"), ((-0.2, -0.1), "No head beats")],
)
def test_a_head_that_does_not_beat_the_strongest_baseline_is_told_so(
    ends: tuple[float, float], verb: str
) -> None:
    row = antecedents(difference_low=ends[0], difference_high=ends[1])
    (answer,) = choose_answers({"coreference-best": pd.DataFrame([row])})
    assert answer.text.startswith(f"{verb} the strongest baseline, the rules,")
    assert answer.text.endswith("the rules 70.")
    assert answer.weight < 0.9


def test_a_baseline_other_than_the_rules_is_compared_by_its_own_contrast() -> None:
    row = antecedents(head_match=0.72)
    contrast = {"window": 128, "candidates": "mentions", "mention_type": "all"}
    contrast |= {"than": "head-match", "difference": 0.03, "low": -0.01, "high": 0.07}
    tables = {
        "coreference-best": pd.DataFrame([row]),
        "coreference-contrasts": pd.DataFrame([contrast]),
    }
    (said,) = texts(tables)
    assert said.startswith("No head clearly beats")
    assert "same head word" in said
    assert said.endswith(" 72.")


def test_an_interval_that_leaves_all_open_makes_a_sentence_light() -> None:
    weights = []
    for low, high in ((0.7, 0.8), (0.02, 0.99)):
        row = antecedents(heldout_low=low, heldout_high=high)
        (answer,) = choose_answers({"coreference-best": pd.DataFrame([row])})
        weights.append(answer.weight)
    assert weights[1] < 0.3 * weights[0]


# Intervals that include a threshold, or say nothing.


def test_only_heads_whose_interval_passes_are_named_and_the_others_counted() -> None:
    sure, unsure = shares((1, 3, "next", 0.9)), shares((2, 9, "next", 0.51), width=0.5)
    (answer,) = choose_answers({"position": pd.concat([sure, unsure])})
    assert answer.heads == ("1-3",)
    assert "undecided: 1 more" in answer.text
    (answer,) = choose_answers({"position": unsure})
    assert "undecided" in answer.text
    assert answer.weight < 0.3


def test_a_wide_interval_is_told_and_one_that_says_nothing_silences() -> None:
    def sink(low: float, high: float) -> list[str]:
        tables = special("sep", 0.5)
        table = tables["special-tokens-layers"].assign(low=low, high=high)
        return texts({"special-tokens-layers": table})

    assert "31-68 %" in sink(0.31, 0.68)[0]
    assert "no interval" in sink(nan, nan)[0]
    assert sink(0.0, 1.0) == []


def test_heads_that_may_put_half_on_special_tokens_are_undecided() -> None:
    table = shares((1, 1, "", 0.9), (1, 2, "", 0.3))
    encoder = {**special("cls", 0.3), "special-tokens-heads": table}
    assert any(said.startswith("1 of 2 heads puts over half") for said in texts(encoder))
    assert not any("the first token" in said for said in texts(encoder))
    wide = shares((1, 1, "", 0.6), width=0.3)
    assert "undecided" in texts({"special-tokens-heads": wide})[0]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.05, "attend more"), (-0.01, 0.05, "do not clearly"), (-0.05, -0.01, "attend less")],
)
def test_layers_are_alike_only_where_the_interval_says_so(
    low: float, high: float, said: str
) -> None:
    row = {"layer": nan, "within": 0.2, "between": 0.22, "difference": 0.02, "p_value": 0.001}
    table = pd.DataFrame([{**row, "difference_low": low, "difference_high": high}])
    assert said in texts({"distance-layers": table})[0]


@pytest.mark.parametrize(
    ("low", "high", "is_decided"), [(0.1, 0.4, True), (0.9, 1.1, True), (0.2, 3.0, False)]
)
def test_the_gradient_is_compared_only_where_its_ratio_is_clear(
    low: float, high: float, is_decided: bool
) -> None:
    heads = shares((1, 1, "sep", 0.2)).rename(columns={"weight": "gradient"})
    layers = {"layers": UPPER, "target": "sep", "gradient": 0.1, "ratio": (low + high) / 2}
    tables = {
        "gradient": heads,
        "gradient-layers": pd.DataFrame([{**layers, "low": low, "high": high}]),
    }
    (said,) = texts(tables)
    assert ("undecided" not in said) == is_decided


@pytest.mark.parametrize(
    ("low", "rule", "is_better"), [(0.7, "nearest", True), (0.5, "nearest", False)]
)
def test_names_are_told_beside_the_strongest_baseline(
    low: float, rule: str, is_better: bool
) -> None:
    head = {"system": "best head", "layer": 2, "head": 3, "direction": "mention-to-antecedent"}
    head |= {"heldout_accuracy": 0.75, "heldout_low": low, "heldout_high": 0.8, "count": 90}
    rules = [{"system": rule, "accuracy": 0.6}, {"system": "head-match", "accuracy": 0.1}]
    best = pd.DataFrame([head, *rules]).assign(candidates="mentions", chosen_in=8, folds=8)
    (said,) = texts({"gap-best": best})
    assert f"the strongest baseline, {rule}, finds 60" in said
    assert ("not clearly better" not in said) == is_better


def test_probes_are_told_beside_the_strongest_baseline() -> None:
    rows = {"attention-and-words": 0.6, "right-branching": 0.3, "distances-and-words": 0.58}
    table = pd.DataFrame({"probe": list(rows), "uas": list(rows.values())})
    (said,) = texts({"probes": table.assign(low=table["uas"] - 0.02, high=table["uas"] + 0.02)})
    assert "distances-and-words) finds 58, so it is not clearly better" in said


# Ablation.


def ablated(*rows: tuple[int, int, str, float, float], effect: str = "loss") -> Tables:
    table = pd.DataFrame(rows, columns=["layer", "head", "mode", "change", "width"])
    ends = {"low": table["change"] - table["width"], "high": table["change"] + table["width"]}
    return {"ablation": table.assign(effect=effect, **ends)}


def test_the_head_that_matters_most_is_found_over_all_modes_and_the_tested_heads_counted() -> None:
    zero, sink = (12, 7, "zero", 0.3, 0.1), (19, 9, "sink", 3.8, 0.5)
    (answer,) = choose_answers(ablated(zero, (19, 9, "zero", 0.1, 0.05), sink))
    assert answer.heads == ("19-9",)
    assert "Of the 2 heads tested in 2 modes" in answer.text
    assert "rises by 3.8" in answer.text
    (answer,) = choose_answers(ablated(zero, (19, 9, "zero", -0.4, 0.05)))
    assert answer.heads == ("19-9",)
    assert "falls by 0.4" in answer.text


@pytest.mark.parametrize("width", [9.0, nan])
def test_a_largest_change_that_may_be_none_leaves_open_which_head_matters_most(
    width: float,
) -> None:
    (answer,) = choose_answers(ablated((12, 7, "zero", 0.3, 0.1), (19, 9, "sink", 3.8, width)))
    assert "undecided" in answer.text
    assert answer.weight < 0.3


# Choosing.


def made(monkeypatch: pytest.MonkeyPatch, **weights: list[float]) -> None:
    shown = {
        name: Presentation(
            show=[
                AnswerMaker(
                    ("position",),
                    lambda tables, n=name, w=own: [Answer(f"{n} {v}", v) for v in w],  # type: ignore[misc]
                )
            ]
        )
        for name, own in weights.items()
    }
    monkeypatch.setattr("headscope.view.answer.load_presentations", lambda: shown)


def test_the_best_five_are_chosen_and_not_all_of_one_analysis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made(monkeypatch, a=[1.0, 0.99, 0.98, 0.97, 0.96, 0.95], b=[0.8], c=[0.6], d=[0.1])
    found = texts({"position": shares((1, 1, "previous", 0.1))})
    assert found == ["a 1.0", "b 0.8", "a 0.99", "c 0.6", "a 0.98"]


def test_answers_of_an_encoder_decoder_say_which_attention_they_are_about() -> None:
    parts = {
        kind: {"position": shares((1, 2, "previous", share))}
        for kind, share in {"encoder": 0.9, "cross": 0.8}.items()
    }
    assert texts(join_kinds(parts)) == [
        "Encoder: 1 of 1 heads looks at the previous token: 1-2 (90 %).",
        "Cross attention: 1 of 1 heads looks at the previous token: 1-2 (80 %).",
    ]


def test_the_parts_of_a_sentence_find_its_heads_and_no_other_numbers() -> None:
    answer = Answer("In layers 5-12 head 3-3 is like 13-3.", 1.0, heads=("3-3",))
    assert [part for part, is_head in answer.parts() if is_head] == ["3-3"]
    assert "".join(part for part, _ in answer.parts()) == answer.text


def test_the_terminal_splits_no_word_and_no_number() -> None:
    rows = shares(*((12, head, "x", 0.97 - head / 100) for head in range(10, 13)))
    answer = count_heads(Passing(rows, rows[:0]), 72, "looks at the previous token", 1, "")
    for width in range(20, 90):
        lines = describe_answers([answer], width).splitlines()
        assert max(map(len, lines)) <= width
        assert " ".join(line[2:] for line in lines) == answer.text
        assert not any(line.strip().startswith("%") for line in lines)


def test_every_answer_names_a_figure_that_there_is() -> None:
    figures = {figure.name for figure in list_specs(Figure)}
    position = {"position": shares((1, 1, "previous", 0.9))}
    best = {"dependency-best": pd.DataFrame([relation("det", 5, 5)])}
    found = choose_answers({**position, **best, **special("sep", 0.3)})
    assert len(found) == 4
    assert {answer.figure for answer in found} <= figures
