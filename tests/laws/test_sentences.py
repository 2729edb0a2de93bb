"""Every sentence of the first screen is true of its tables: numbers, intervals and baselines."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from headscope.analyses.dependency.claims import beats_offsets, is_relation
from headscope.data.table import Tables
from headscope.runs.run import load_run
from headscope.stats.interval import Estimate
from headscope.view.answer import Answer, choose_answers
from headscope.view.judge import fill_exact
from headscope.view.numbers import SHARE, WHOLE_PERCENT, bounds, row_estimate
from tests.conftest import DemoRun
from tests.report.made import planted_run

EVERY = 10_000
INTERVAL = re.compile(r"(?:\d+(?:\.\d)?) % \[[-\d.]+\]")
PERCENT = re.compile(r"(\d+(?:\.\d)?) %(?! \[)")
WIDEST = 0.3


@pytest.fixture(scope="module", params=["demo", "planted"])
def tables(request: pytest.FixtureRequest) -> Tables:
    """Tables of the demo with a real model, and of heads that were planted."""
    if request.param == "planted":
        return planted_run().tables
    demo: DemoRun = request.getfixturevalue("demo_run")
    return load_run(demo.folder).tables


@pytest.fixture(scope="module")
def answers(tables: Tables) -> list[Answer]:
    return choose_answers(tables, EVERY)


def estimates(tables: Tables) -> Iterator[Estimate[float]]:
    """Every number of the tables that has an interval, and those that never vary."""
    for table in tables.values():
        for column in table.select_dtypes("number"):
            low, high = bounds(table, str(column))
            if low in table and high in table:
                for row in fill_exact(table, str(column)).to_dict("records"):
                    value, *ends = row_estimate(row, str(column))
                    yield Estimate(value, *(value if pd.isna(end) else end for end in ends))


def test_there_are_sentences_to_test(answers: list[Answer]) -> None:
    assert len(answers) >= 5


def test_every_number_with_an_interval_is_a_number_of_a_table(
    tables: Tables, answers: list[Answer]
) -> None:
    known = {form.estimate(e) for e in estimates(tables) for form in (WHOLE_PERCENT, SHARE)}
    told = [number for answer in answers for number in INTERVAL.findall(answer.text)]
    assert told
    assert {*told} <= known


def test_the_number_that_a_sentence_is_about_stands_in_it_with_its_interval(
    tables: Tables, answers: list[Answer]
) -> None:
    known = {tuple(np.round(e, 12)) for e in estimates(tables)}
    for answer in answers:
        if answer.estimate is None:
            assert not PERCENT.search(answer.text), "a share without an interval"
        elif answer.widest == WIDEST:  # a share
            assert tuple(np.round(answer.estimate, 12)) in known
            shown = [form.estimate(answer.estimate) for form in (WHOLE_PERCENT, SHARE)]
            assert any(number in answer.text for number in shown), answer.text


def test_no_interval_includes_the_threshold_or_is_too_wide(answers: list[Answer]) -> None:
    for answer in answers:
        if answer.estimate is not None:
            _, low, high = answer.estimate
            assert high - low <= answer.widest
            assert not low <= answer.threshold <= high
        for number in INTERVAL.findall(answer.text):
            low, high = map(float, number.split("[")[1].rstrip("]").split("-"))
            assert high - low <= 100 * WIDEST + 1, number  # both are rounded


def test_percents_without_an_interval_are_the_baseline_the_sentence_is_compared_with(
    answers: list[Answer],
) -> None:
    for answer in answers:
        for number in PERCENT.findall(answer.text):
            baseline = [WHOLE_PERCENT.number(answer.threshold), SHARE.number(answer.threshold)]
            is_choice = f"attends most to it in {number} %" in answer.text
            assert is_choice or f"{number} %" in baseline, answer.text


def test_the_baseline_of_a_relation_is_the_best_of_all_fixed_distances(
    tables: Tables, answers: list[Answer]
) -> None:
    best, offsets = tables["dependency-best"], tables["dependency-offset"]
    told = [answer for answer in answers if "best head for" in answer.text]
    assert told or not beats_offsets(best[is_relation(best)]).any()
    for answer in told:
        relation = re.search(r"(?:among them|best head for) (\S+) \(", answer.text)
        assert relation, answer.text
        of_relation = offsets[offsets["relation"] == relation[1]]
        assert answer.threshold == pytest.approx(of_relation["accuracy"].max(), abs=1e-9)
        row = best[best["relation"] == relation[1]].iloc[0]
        assert answer.heads == (f"{row['layer']}-{row['head']}",)
        assert row["p_value"] < 0.05
        assert row["heldout_difference"] > 0


def test_the_baseline_of_antecedents_is_the_best_of_all_rules(
    tables: Tables, answers: list[Answer]
) -> None:
    told = [answer for answer in answers if "refers back to" in answer.text]
    for answer in told:
        best = tables["coreference-best"]
        rows = best[np.isclose(best["heldout_accuracy"], answer.estimate.value)]  # type: ignore[union-attr]
        rules = rows[["nearest", "head_match", "rule_based"]].to_numpy()
        assert np.isclose(rules.max(axis=1), answer.threshold).any()


def test_counts_of_heads_are_those_whose_interval_is_above_half(
    tables: Tables, answers: list[Answer]
) -> None:
    position = tables["position"]
    low = position["low"].fillna(position["weight"])  # exact where it never varies
    for target, name in {"previous": "the previous token", "next": "the next token"}.items():
        rows = position["target"] == target
        n_sure, n_heads = int((low[rows] > 0.5).sum()), int(rows.sum())
        told = [a.text for a in answers if f"attention on {name}:" in a.text]
        assert bool(told) == bool(n_sure)
        assert all(text.startswith(f"{n_sure} of {n_heads} ") for text in told)
