"""The suite of probes: found by name, scored alike, and open to probes of other packages."""

from collections.abc import Mapping
from functools import partial
from threading import get_ident

import numpy as np
import pytest
import torch

from headscope.probes import UNTRAINED_PREFIX
from headscope.probes.attention_only import AttentionOnly
from headscope.probes.baselines import FixedOffset, choose_heads
from headscope.probes.batches import score_sentences
from headscope.probes.suite import Probe, Suite, run_probes, run_side_by_side
from headscope.probes.train import NoStateStore, TrainingOptions
from headscope.registry import PROBES
from tests.probes.made import PLANTED_TREE, made_vectors, make_examples, store

NAMES = [  # as in the paper's Table 3, weakest first
    "right-branching",
    "left-branching",
    "best-offset",
    "best-single-head",
    "best-heads-combined",
    "best-heads-per-relation",
    "random-init-attention-only",
    "random-init-attention-and-words",
    "random-init-structural-probe",
    "words-only",
    "distances-and-words",
    "attention-only",
    "attention-and-words",
    "structural-probe-layer-0",
    "structural-probe",
]
OF_ATTENTION = [name for name in NAMES if "structural" not in name]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("stores")
    return Suite(
        train=store(folder / "train", make_examples(90), PLANTED_TREE),
        test=store(folder / "test", make_examples(20, first=500), PLANTED_TREE),
        vectors=made_vectors(),
        options=TrainingOptions(epochs=1),
        open_state=lambda name: NoStateStore(),
    )


def load(name: str) -> Probe:
    probe = PROBES.find(name).load()
    assert isinstance(probe, Probe)
    return probe


def test_the_registry_has_the_papers_probes_in_its_order() -> None:
    assert list(PROBES.built_in) == NAMES
    assert all(entry.summary for entry in PROBES.built_in.values())


@pytest.mark.parametrize("name", OF_ATTENTION)
def test_every_probe_learns_and_says_what_it_needs(name: str, suite: Suite) -> None:
    probe = load(name)
    assert probe.of_untrained == name.startswith(UNTRAINED_PREFIX)
    assert probe.needs_vectors == name.endswith(("words", "words-only"))
    result = suite.run(name, probe)
    assert result.scores.count.sum() > 0
    is_fixed = name.endswith("branching")
    assert result.sentences == (0 if is_fixed else 90)
    assert (result.parameters == 0) == is_fixed


def test_progress_and_state_go_by_the_probes_name(suite: Suite) -> None:
    reported, opened = list[str](), list[str]()

    def report(name: str, n_done: int, n_most: int | None, text: str) -> None:
        reported.append(name)

    def open_state(name: str) -> NoStateStore:
        opened.append(name)
        return NoStateStore()

    other = suite.over(suite.train, suite.test, UNTRAINED_PREFIX)
    other.report, other.open_state = report, open_state
    other.run("random-init-attention-and-words", load("random-init-attention-and-words"))
    assert set(reported) == {"random-init-attention-only", "random-init-attention-and-words"}
    assert opened == ["random-init-attention-and-words"]
    fitted: Mapping[str, AttentionOnly] = other.fitted
    assert list(fitted) == ["random-init-attention-only"]


def test_a_probe_of_another_package_is_run_as_ours_are(suite: Suite) -> None:
    def learn(suite: Suite) -> FixedOffset:
        return FixedOffset(2, n_parameters=1)

    result = suite.run("mine", Probe(learn))
    assert (result.sentences, result.parameters) == (90, 1)
    expected = suite.run("fixed", Probe(lambda suite: FixedOffset(2)))
    np.testing.assert_array_equal(result.scores.correct, expected.scores.correct)
    assert expected.sentences == 0


def test_what_several_probes_need_is_made_once(suite: Suite) -> None:
    made, own = list[str](), suite.over(suite.train, suite.test, "")
    tasks = {str(n): lambda: own.share("counts", lambda: made.append("counts")) for n in range(9)}
    run_side_by_side(tasks)
    assert made == ["counts"]
    assert own.head_counts is own.head_counts


def test_probes_come_back_in_their_order_and_learn_the_longest_first(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[str]()
    needs = {
        "fixed": {},
        "words": {"needs_vectors": True, "is_trained": True},
        "vectors": {"needs_hidden": True, "is_trained": True},
        "attention": {"is_trained": True},
    }

    def learn(suite: Suite, name: str) -> FixedOffset:
        begun.append(name)
        return FixedOffset(1)

    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    probes = {name: Probe(partial(learn, name=name), **needs[name]) for name in needs}
    assert list(run_probes(probes, dict.fromkeys(probes, suite))) == list(needs)
    assert begun == ["attention", "words", "vectors", "fixed"]


def test_words_are_unknown_where_there_are_no_vectors(suite: Suite) -> None:
    bare = Suite(suite.train, suite.test, None, suite.options, suite.open_state)
    assert bare.row_of("boat") == 0
    assert bare.run("attention-only", load("attention-only")).parameters == 61


def test_every_task_has_its_result_under_its_name_in_the_order_given() -> None:
    tasks = {f"task {n}": lambda n=n: n**2 for n in range(20)}
    assert list(run_side_by_side(tasks).items()) == [(f"task {n}", n**2) for n in range(20)]
    assert run_side_by_side({}) == {}


def test_each_task_has_one_core_and_no_more_run_than_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    threads = set(run_side_by_side({str(n): get_ident for n in range(12)}).values())
    assert len(threads) <= 3
    assert get_ident() not in threads


def test_an_error_is_raised_and_nothing_new_begins() -> None:
    begun = []

    def fail() -> None:
        raise ValueError("too few sentences")

    with pytest.raises(ValueError, match="too few sentences"):
        run_side_by_side({"fails": fail, "later": lambda: begun.append("later")})
    assert begun == []


def test_the_best_heads_are_summed_each_as_often_as_it_is_best(suite: Suite) -> None:
    combined = load("best-heads-combined").learn(suite)
    chosen = [
        head
        for relation, head in choose_heads(suite.head_counts).items()
        if relation and suite.head_counts[relation][:, head.map, head.direction].sum() >= 20
    ]
    assert len(chosen) > 2
    scores = dict(score_sentences(combined, suite.test))
    for place, index in enumerate(suite.test.stored_at):
        n = len(suite.test.sentences[place])
        maps = suite.test.maps.sentence(int(index)).double()  # [word, other, map]
        parts = [
            maps[:, :n, head.map].T if head.direction else maps[:, :n, head.map] for head in chosen
        ]
        total = torch.stack(parts).sum(0).fill_diagonal_(-1)
        assert scores[place][:n, :n].argmax(-1).tolist() == total.argmax(-1).tolist()
