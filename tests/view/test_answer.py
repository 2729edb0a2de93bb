"""The answer in short: sentences from tables, the best of them chosen, in plain English."""

from math import nan

import pandas as pd
import pytest

from headscope.analyses.gradient import UPPER
from headscope.data.table import join_kinds
from headscope.stats.interval import Estimate
from headscope.view.answer import (
    Answer,
    AnswerMaker,
    Topic,
    answer_run,
    choose_answers,
    count_heads,
)
from headscope.view.judge import Passing
from headscope.view.presentation import Presentation, list_specs
from headscope.view.specs import Figure
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


def test_heads_are_counted_and_named_with_their_intervals() -> None:
    rows = [(3, 3, "previous", 0.974), (1, 7, "previous", 0.53), (1, 1, "previous", 0.1)]
    (answer,) = choose_answers({"position": shares(*rows)})
    assert answer.text == (
        "2 of 3 heads put over half of their attention on the previous token: 3-3 (97 % [96-98]) "
        "and 1-7 (53 % [52-54])."
    )
    assert answer.detail == "3-3 97.4 % [96.4-98.4], 1-7 53.0 % [52.0-54.0]."
    assert answer.heads == ("3-3", "1-7")
    assert answer.figure == "position"
    (alone,) = texts({"position": shares(*rows[::2])})
    assert alone.startswith("1 of 2 heads puts over half of its attention")


def test_of_many_heads_the_strongest_are_named() -> None:
    rows = [(1, head, "next", 0.6 + head / 100) for head in range(1, 12)]
    (answer,) = choose_answers({"position": shares(*rows)})
    assert answer.heads == ("1-11", "1-10", "1-9")
    assert answer.text.startswith("11 of 11 heads put over half of their attention")


def test_that_no_head_does_something_is_said_with_what_comes_closest() -> None:
    rows = [(1, 1, "previous", 0.2), (2, 3, "next", 0.34), (2, 3, "self", 0.1)]
    assert texts({"position": shares(*rows)}) == [
        "No head puts over half of its attention on a neighbour or the token itself; the closest "
        "is 2-3 (34 % [33-35] on the next token)."
    ]


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
        "24 % [19-29] of all attention rests on the closing token ([SEP]), 6.6 [6.5-6.7] times as "
        "much from layer 5 on as before."
    ]
    flat = {**step, "before": 0.3, "ratio": 1.1}
    assert texts(special("sep", 0.24, flat)) == [
        "24 % [19-29] of all attention rests on the closing token ([SEP])."
    ]
    unsure = {**step, "ratio_low": 0.9}
    assert texts(special("sep", 0.24, unsure)) == texts(special("sep", 0.24, flat))


def test_where_attention_rests_is_told_first_however_little_it_is() -> None:
    position = shares((1, 1, "previous", 0.7), (1, 1, "next", 0.0))
    first, second = texts({**special("first", 0.12), "position": position})
    assert "rests on the first token" in first
    assert "the previous token: 1-1" in second


def test_a_token_class_of_the_user_is_told_beside_the_mean_of_all_heads() -> None:
    heads = shares((1, 1, "pronouns", 0.02), (1, 2, "pronouns", 0.12)).assign(source="all")
    tables = {**special("pronouns", 0.07), "special-tokens": heads}
    tables["special-tokens-layers"] = tables["special-tokens-layers"].assign(low=0.06, high=0.08)
    (answer,) = choose_answers(tables)
    assert answer.heads == ("1-2",)
    for part in ("pronouns", "12.0 % [11.0-13.0]", "7.0 % [6.0-8.0]", "all 2 heads"):
        assert part in answer.text
    tables["special-tokens-layers"] = tables["special-tokens-layers"].assign(weight=0.115)
    assert choose_answers(tables) == [], "no head is clearly above the mean"


# Relations.


def test_a_head_is_told_with_all_it_finds_and_the_numbers_of_the_most_frequent() -> None:
    case = relation("case", 5, 5, count=300, heldout_accuracy=0.82, heldout_low=0.8)
    best = pd.DataFrame([relation("det", 5, 5), {**case, "heldout_high": 0.84}])
    (first, *_) = choose_answers({"dependency-best": best})
    assert first.text == (
        "Head 5-5 points prepositions and determiners at their noun: best head for 2 relations, "
        "among them case (82 % [80-84] held out, among all words; best fixed distance 57 %)."
    )
    assert "det, 200 words: 90.3 % [85.0-94.0]" in first.detail


def test_heads_that_find_frequent_relations_come_before_those_that_find_rare_ones_better() -> None:
    rare = relation("cop", 1, 1, count=60, heldout_difference=0.6)
    frequent = relation("det", 2, 2, count=900, heldout_difference=0.2)
    said = texts({"dependency-best": pd.DataFrame([rare, frequent])})
    assert said[0].startswith("Head 2-2 ")
    assert said[1].startswith("Head 1-1 ")


@pytest.mark.parametrize(
    ("name", "direction", "expected"),
    [
        ("aux", "dependent-to-head", "Head 2-3 points auxiliaries at their verb"),
        ("obj", "head-to-dependent", "direct objects get most attention from their verb"),
        ("xyz", "dependent-to-head", "points dependents of xyz at their head"),
        ("cc", "dependent-to-head", "points conjunctions at their conjunct"),
    ],
)
def test_directions_and_unknown_relations(name: str, direction: str, expected: str) -> None:
    best = pd.DataFrame([relation(name, 2, 3, direction=direction)])
    assert expected in texts({"dependency-best": best})[0]


def test_each_direction_of_a_head_has_its_own_sentence() -> None:
    other = relation("obj", 2, 3, direction="head-to-dependent")
    said = texts({"dependency-best": pd.DataFrame([relation("det", 2, 3), other])})
    assert [text.split(",")[0] for text in said[:2]] == [
        "Head 2-3 points determiners at their noun: best head for det (90 % [85-94] held out",
        "In head 2-3",
    ]


def test_where_columns_are_read_the_choice_of_the_row_is_told_too() -> None:
    row = relation("case", 2, 3, direction="head-to-dependent", choice_share=0.044)
    (said, *_) = texts({"dependency-best": pd.DataFrame([row])})
    assert "the noun itself attends most to it in 4 %)" in said


@pytest.mark.parametrize(
    "changed",
    [
        {"p_value": 0.3},
        {"heldout_low": 0.4},  # its interval includes the baseline
        {"heldout_low": 0.64, "heldout_high": 0.99},  # too wide
        {"chosen_in": 3},  # the score is mostly that of other heads
        dict.fromkeys(["heldout_accuracy", "heldout_low", "heldout_difference", "p_value"], nan),
    ],
)
def test_a_relation_that_the_data_leave_open_is_not_told(changed: dict[str, float]) -> None:
    best = pd.DataFrame([relation("det", 5, 5, **changed), relation("punct", 1, 1)])
    assert not any("5-5" in said for said in texts({"dependency-best": best}))


def test_that_no_head_finds_a_relation_is_told_where_it_is_certain() -> None:
    worse = {"p_value": 0.001, "heldout_difference": -0.2, "difference_high": -0.1}
    best = pd.DataFrame([relation("det", 5, 5, **worse)])
    (said,) = texts({"dependency-best": best})
    assert said.startswith("No head finds any of 1 frequent")


def antecedents(**changed: object) -> dict[str, object]:
    best = {"layer": 5, "head": 4, "mention_type": "all", "candidates": "mentions", "count": 90}
    best |= {"accuracy": 0.8, "heldout_accuracy": 0.75, "heldout_low": 0.7, "heldout_high": 0.8}
    best |= {"nearest": 0.3, "head_match": 0.6, "rule_based": 0.7, "heldout_difference": 0.05}
    best |= {"difference_low": 0.02, "difference_high": 0.08}
    best |= {"chosen_in": 8, "folds": 8, "window": 128, "direction": "antecedent-to-mention"}
    return {**best, **changed}


def test_antecedents_are_told_with_candidates_direction_and_the_strongest_baseline() -> None:
    row = antecedents(heldout_low=0.72)
    (said,) = texts({"coreference-best": pd.DataFrame([row])})
    assert said.startswith("Head 5-4 finds")
    for part in (
        "75 % [72-80]",
        "the rules, for 70 %",
        "annotated mentions",
        "from the antecedent",
    ):
        assert part in said


def test_a_head_that_does_not_beat_the_strongest_baseline_is_told_so_where_it_is_certain() -> None:
    worse = {"difference_low": -0.2, "difference_high": -0.1}
    row = antecedents(heldout_accuracy=0.6, heldout_low=0.55, heldout_high=0.65, **worse)
    (said,) = texts({"coreference-best": pd.DataFrame([row])})
    assert said.startswith("No head beats the rules: head 5-4")
    assert said.endswith("the rules, for 70 %.")
    unsure = {**row, "difference_high": 0.05}
    assert texts({"coreference-best": pd.DataFrame([unsure])}) == []


def test_a_baseline_other_than_the_rules_is_compared_by_its_own_contrast() -> None:
    row = antecedents(head_match=0.72, heldout_low=0.73)
    contrast = {"window": 128, "candidates": "mentions", "mention_type": "all"}
    contrast |= {"than": "head-match", "difference": 0.03, "low": 0.01, "high": 0.07}
    tables = {
        "coreference-best": pd.DataFrame([row]),
        "coreference-contrasts": pd.DataFrame([contrast]),
    }
    (said,) = texts(tables)
    assert "the nearest mention with the same head word, for 72 %" in said
    tables["coreference-contrasts"] = pd.DataFrame([{**contrast, "low": -0.01}])
    assert texts(tables) == []


# Intervals that include a threshold, or say nothing.


@pytest.mark.parametrize(
    ("estimate", "threshold", "is_clear"),
    [
        (Estimate(0.6, 0.55, 0.65), 0.5, True),
        (Estimate(0.4, 0.35, 0.45), 0.5, True),
        (Estimate(0.6, 0.45, 0.75), 0.5, False),
        (Estimate(0.6, 0.5, 0.65), 0.5, False),
        (Estimate(0.7, 0.55, 0.86), 0.5, False),  # 31 points
        (Estimate(0.7, 0.55, 0.84), nan, True),
        (Estimate(0.7, nan, nan), nan, False),
    ],
)
def test_a_sentence_is_said_only_if_its_interval_is_clear_of_its_threshold_and_narrow(
    estimate: Estimate[float], threshold: float, is_clear: bool
) -> None:
    assert Answer("", estimate=estimate, threshold=threshold).is_clear == is_clear


def test_only_heads_whose_interval_passes_are_named_and_the_others_counted() -> None:
    sure, unsure = shares((1, 3, "next", 0.9)), shares((2, 9, "next", 0.51), width=0.5)
    (answer,) = choose_answers({"position": pd.concat([sure, unsure])})
    assert answer.heads == ("1-3",)
    assert "undecided: 1 more" in answer.text
    assert choose_answers({"position": unsure}) == []
    exact = shares((1, 2, "previous", 0.9)).assign(low=nan, high=nan)
    assert choose_answers({"position": exact}) == [], "without intervals nothing is told"


@pytest.mark.parametrize(
    ("documents", "tokens", "is_told"),
    [(10, 1000, True), (9, 5000, False), (50, 999, False), (1, 1, False)],
)
def test_of_too_few_documents_or_tokens_the_first_line_says_so_instead(
    documents: int, tokens: int, is_told: bool
) -> None:
    manifest = {
        "model": {},
        "passes": {"text": {"analyses": ["position"]}},
        "counts": {"text": {"documents": documents, "tokens": tokens}},
    }
    (answer,) = answer_run({"position": shares((1, 2, "previous", 0.9))}, manifest)
    assert ("1-2" in answer.text) == is_told
    assert (f"{tokens:,} token" in answer.text) != is_told
    assert ("too little to tell" in answer.text) != is_told


def test_an_analysis_of_too_little_is_silent_while_others_speak() -> None:
    manifest = {
        "model": {},
        "passes": {"text": {"analyses": ["position"]}, "coref": {"analyses": ["coreference"]}},
        "counts": {
            "text": {"documents": 20, "tokens": 2000},
            "coref": {"documents": 2, "tokens": 2000},
        },
    }
    row = antecedents(heldout_low=0.72)
    tables = {
        "position": shares((1, 2, "previous", 0.9)),
        "coreference-best": pd.DataFrame([row]),
    }
    assert len(choose_answers(tables)) == 2
    (answer,) = answer_run(tables, manifest)
    assert answer.heads == ("1-2",)


def test_heads_that_put_half_on_special_tokens_are_counted() -> None:
    table = shares((1, 1, "", 0.9), (1, 2, "", 0.3))
    encoder = {**special("cls", 0.3), "special-tokens-heads": table}
    assert any(said.startswith("1 of 2 heads puts over half") for said in texts(encoder))
    assert not any("the first token" in said for said in texts(encoder))
    wide = shares((1, 1, "", 0.6), width=0.3)
    assert texts({"special-tokens-heads": wide}) == []


@pytest.mark.parametrize(
    ("low", "high", "p_value", "said"),
    [
        (0.01, 0.05, 0.001, "attend more"),
        (0.01, 0.05, 0.3, ""),
        (-0.01, 0.05, 0.001, ""),
        (-0.05, -0.01, 0.999, "attend less"),
        (-0.05, -0.01, 0.82, ""),  # random layers are as far apart
    ],
)
def test_layers_are_alike_only_where_interval_and_permutations_say_so(
    low: float, high: float, p_value: float, said: str
) -> None:
    row = {"layer": nan, "within": 0.2, "between": 0.22, "difference": 0.02, "p_value": p_value}
    row |= {"within_low": 0.19, "within_high": 0.21, "between_low": 0.21, "between_high": 0.23}
    table = pd.DataFrame([{**row, "difference_low": low, "difference_high": high}])
    told = texts({"distance-layers": table})
    assert len(told) == bool(said)
    assert said in "".join(told)


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
    assert len(texts(tables)) == is_decided


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
    said = texts({"gap-best": best})
    assert len(said) == is_better, "an interval that includes the baseline is not told"
    assert all(f"the strongest baseline, {rule}, for 60 %" in text for text in said)


def test_probes_are_told_beside_the_strongest_baseline() -> None:
    rows = {"attention-and-words": 0.6, "right-branching": 0.3, "distances-and-words": 0.58}
    table = pd.DataFrame({"probe": list(rows), "uas": list(rows.values())})
    assert texts({"probes": table.assign(low=table["uas"] - 0.02, high=table["uas"] + 0.02)}) == []
    (said,) = texts({"probes": table.assign(low=table["uas"] - 0.005, high=table["uas"] + 0.005)})
    assert "60 % [60-61] of words; the strongest baseline (distances-and-words)" in said


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
def test_a_largest_change_that_may_be_none_is_not_told(width: float) -> None:
    rows = (12, 7, "zero", 0.3, 0.1), (19, 9, "sink", 3.8, width)
    assert choose_answers(ablated(*rows)) == []


# Choosing.


def made(monkeypatch: pytest.MonkeyPatch, **answers: list[tuple[Topic, float]]) -> None:
    def maker(name: str, given: list[tuple[Topic, float]]) -> AnswerMaker:
        made = [Answer(f"{name} {weight}", weight, topic=topic) for topic, weight in given]
        return AnswerMaker(("position",), lambda tables: made)

    shown = {name: Presentation(show=[maker(name, given)]) for name, given in answers.items()}
    monkeypatch.setattr("headscope.view.answer.load_presentations", lambda: shown)


def test_topics_rank_sentences_and_each_analysis_speaks_before_one_speaks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finds = [(Topic.FINDS, weight) for weight in (0.7, 1.0, 0.9, 0.8)]
    made(
        monkeypatch,
        a=finds,
        b=[(Topic.HEAD, 0.6), (Topic.SUMMARY, 1.0)],
        c=[(Topic.REST, 0.3)],
        d=[(Topic.FINDS, 0.5)],
    )
    said = texts({"position": shares((1, 1, "previous", 0.1))})
    assert said == ["c 0.3", "a 1.0", "d 0.5", "a 0.9", "a 0.8", "b 0.6"]


def test_summaries_only_fill_up(monkeypatch: pytest.MonkeyPatch) -> None:
    summaries = [(Topic.SUMMARY, 1.0), (Topic.NONE, 1.0)]
    made(monkeypatch, a=[*summaries, *[(Topic.FINDS, 0.5)] * 5])
    said = texts({"position": shares((1, 1, "previous", 0.1))})
    assert said == ["a 0.5"] * 5 + ["a 1.0"]


def test_what_is_extreme_of_a_head_that_is_named_already_is_not_said() -> None:
    position = shares((3, 3, "previous", 0.97), (1, 1, "previous", 0.1), (1, 2, "previous", 0.1))
    largest = shares((3, 3, "", 0.98), (1, 1, "", 0.2), (1, 2, "", 0.2))
    assert len(texts({"max-weight": largest})) == 1
    assert len(texts({"max-weight": largest, "position": position})) == 1


def test_answers_of_an_encoder_decoder_say_which_attention_they_are_about() -> None:
    parts = {
        kind: {"position": shares((1, 2, "previous", share))}
        for kind, share in {"encoder": 0.9, "cross": 0.8}.items()
    }
    assert texts(join_kinds(parts)) == [
        "Encoder: 1 of 1 heads puts over half of its attention on the previous token: 1-2 (90 % "
        "[89-91]).",
        "Cross attention: 1 of 1 heads puts over half of its attention on the previous token: 1-2 "
        "(80 % [79-81]).",
    ]


def test_the_parts_of_a_sentence_find_its_heads_and_no_other_numbers() -> None:
    answer = Answer("In layers 5-12 head 3-3 is like 13-3.", 1.0, heads=("3-3",))
    assert [part for part, is_head in answer.parts() if is_head] == ["3-3"]
    assert "".join(part for part, _ in answer.parts()) == answer.text


def test_the_terminal_splits_no_word_and_no_number() -> None:
    rows = shares(*((12, head, "x", 0.97 - head / 100) for head in range(10, 13)))
    answer = count_heads(Passing(rows, rows[:0]), 72, "looks at the previous token", 1, "")
    for width in range(20, 90):
        lines = describe_answers([answer.text], width).splitlines()
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


@pytest.mark.parametrize(("beyond", "is_said"), [(0.27, False), (0.49, False), (0.62, True)])
def test_a_head_looks_far_only_if_most_of_its_attention_goes_there(
    beyond: float, is_said: bool
) -> None:
    rows = [{"layer": 1, "head": head, "distance": 9.0, "sliding_window": nan} for head in (1, 2)]
    share = pd.Series([beyond, 0.02])
    reach = pd.DataFrame(rows).assign(beyond=share)
    reach = reach.assign(beyond_low=share - 0.02, beyond_high=share + 0.02, low=8.0, high=10.0)
    assert bool(texts({"reach": reach})) == is_said
