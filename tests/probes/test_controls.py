"""Control tasks, codes, labels and parts of attention: equal to plain loops, right on made data."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.data.example import ROOT
from headscope.probes.attention_only import (
    PENALTY,
    AttentionOnly,
    compute_hessian,
    fit_attention_only,
    loss_and_gradient,
)
from headscope.probes.batches import SentenceBatch, make_batches, score_sentences
from headscope.probes.controls import (
    BLOCKS,
    control_treebank,
    describe,
    examine_probe,
    give_control_heads,
    head_bits,
)
from headscope.probes.labels import PENALTY as LABEL_PENALTY
from headscope.probes.labels import arc_features, fit_labels, label_loss
from headscope.probes.parts import (
    find_position_heads,
    fit_heads,
    fit_parts,
    greedy_path,
    l1_path,
    score_parts,
    solve_l1,
)
from headscope.probes.scores import score_probe
from headscope.probes.suite import ATTENTION_ONLY, Suite
from headscope.probes.train import NoStateStore, TrainingOptions
from headscope.probes.treebank import ProbeTreebank
from headscope.probes.word_nets import WordNet
from headscope.stats.tests import Difference, add_seeds, add_spread
from tests.making import N_HEADS, N_LAYERS, MadeSource, random_maps
from tests.probes.made import PLANTED_TREE, SYNTAX, made_vectors, make_examples, store
from tests.references import structure as slow

SYNTAX_MAP = SYNTAX[0] * N_HEADS + SYNTAX[1]


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> ProbeTreebank:
    return store(tmp_path_factory.mktemp("train"), make_examples(120), PLANTED_TREE)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> ProbeTreebank:
    return store(tmp_path_factory.mktemp("test"), make_examples(40, first=900), PLANTED_TREE)


def random_probe(seed: int = 0) -> AttentionOnly:
    rng = np.random.default_rng(seed)
    return AttentionOnly(3 * rng.standard_normal((4, N_LAYERS * N_HEADS)), 0.5)


def test_control_heads_are_a_tree_that_depends_on_the_word_alone(treebank: ProbeTreebank) -> None:
    seen: dict[str, set[str]] = {}
    for sentence in treebank.sentences:
        task = give_control_heads(sentence)
        assert task.heads[0] == ROOT
        for word in range(1, len(task) - 1):
            named = {0: "first", len(task) - 1: "last", ROOT: "root"}
            seen.setdefault(task.words[word], set()).add(named[int(task.heads[word])])
    assert all(len(behaviours) == 1 for behaviours in seen.values())
    assert len(set.union(*seen.values())) > 1
    turned = control_treebank(treebank, seed=1)
    assert any(
        (a.heads != give_control_heads(b).heads).any()
        for a, b in zip(turned.sentences, treebank.sentences, strict=True)
    )


def test_codes_equal_plain_loops(treebank: ProbeTreebank) -> None:
    probe, asked = random_probe(), list[int]()

    def learn(known: ProbeTreebank) -> AttentionOnly | None:
        asked.append(len(known))
        return probe if len(known) >= 30 else None

    code = describe(treebank, learn)
    assert asked == [len(treebank) // part for part in BLOCKS[:-1]]
    scores = dict(score_sentences(probe, treebank))
    known = treebank.choose(60, 0)  # before the first block that a probe knows enough for
    expected = sum(
        slow.uniform_length(sentence)
        if place in known.stored_at
        else slow.code_length(sentence, scores[place])
        for place, sentence in enumerate(treebank.sentences)
    )
    assert code.online.sum() == pytest.approx(expected)
    assert code.uniform.sum() == pytest.approx(sum(map(slow.uniform_length, treebank.sentences)))
    assert code.words.sum() == treebank.n_arcs
    value, low, high = code.compression
    assert value == pytest.approx(code.uniform.sum() / code.online.sum())
    assert low < value < high


def test_sharper_scores_take_fewer_bits_where_they_are_right() -> None:
    scores, heads = np.array([[-np.inf, 1.0, 0.0], [0.0, -np.inf, 1.0]]), np.array([1, ROOT])
    assert head_bits(scores, heads, 9.0) < head_bits(scores, heads) < 2


def test_what_is_in_attention_is_selective_and_short(
    treebank: ProbeTreebank, other: ProbeTreebank
) -> None:
    suite = Suite(treebank, other, None, TrainingOptions(), lambda name: NoStateStore())
    checks = examine_probe(suite, "attention-only", ATTENTION_ONLY)
    assert checks.control is not None
    assert checks.description is not None
    assert [step.sentences for step in checks.curve] == [60, 120]
    assert checks.curve[-1].scores.shares[0] > checks.control.scores.shares[0] + 0.2
    assert checks.description.compression.value > 1.3


def test_labels_are_at_the_optimum_of_the_plain_loss(treebank: ProbeTreebank) -> None:
    probe = fit_labels(treebank)
    some = treebank.take(np.arange(4))
    features, gold = list[np.ndarray](), list[int]()
    for place, sentence in zip(some.stored_at, some.sentences, strict=True):
        maps = some.maps.sentence(int(place))
        found = arc_features(maps[None].float(), sentence.heads[None])[0].double().numpy()
        for word, head in enumerate(sentence.heads):
            n = len(sentence)
            ahead = maps[word, n] if head == ROOT else maps[word, head]
            back = maps[word, n + 1] if head == ROOT else maps[head, word]
            ends = [head == ROOT, head != ROOT]
            np.testing.assert_array_equal(found[word], [*ahead.tolist(), *back.tolist(), *ends])
            features.append(found[word])
            gold.append(probe.relations.index(sentence.relations[word]))
    weights = probe.weights.numpy()
    tensors = torch.from_numpy(np.stack(features)), torch.tensor(gold)
    loss, gradient = label_loss(weights.flatten(), *tensors)
    assert loss == pytest.approx(slow.label_loss(np.stack(features), gold, weights, LABEL_PENALTY))
    step = np.zeros(weights.size)
    step[7] = 1e-5
    ends = [label_loss(weights.flatten() + sign * step, *tensors)[0] for sign in (1, -1)]
    assert gradient[7] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_labelled_attachment_needs_the_head_and_the_relation(other: ProbeTreebank) -> None:
    probe = random_probe()
    right = score_probe(probe, other, label=lambda batch, heads: gold(batch))
    wrong = score_probe(probe, other, label=lambda batch, heads: np.full(heads.shape, "?"))
    np.testing.assert_array_equal(right.correct[:, 4], right.correct[:, 0])
    assert right.count[:, 4].sum() == right.count[:, 0].sum() > wrong.correct[:, 4].sum() == 0
    assert score_probe(probe, other).count[:, 4].sum() == 0


def gold(batch: SentenceBatch) -> np.ndarray:
    n = batch.n_words
    return np.array([[*one.relations, *[""] * (n - len(one))] for one in batch.sentences])[None]


@pytest.mark.parametrize("has_distances", [False, True])
def test_the_compiled_net_equals_plain_loops(treebank: ProbeTreebank, has_distances: bool) -> None:
    vectors = made_vectors()
    net = WordNet(vectors, has_distances, seeds=(0, 1))
    some = treebank.take(np.arange(6))
    unknown, root = (part.detach().numpy() for part in net.embedding.parameters())
    for seed in range(2):
        weights = {name: part.detach()[seed].numpy() for name, part in net.weights.items()}
        with net.only(seed):
            found = dict(score_sentences(net, some, vectors.row_of))
        for place, scores in found.items():
            rows = [vectors.row_of(word) for word in some.sentences[place].words]
            words = np.stack([vectors.table[row] if row else unknown[seed] for row in rows])
            expected = slow.net_scores(words, root[seed], weights, has_distances)
            np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_distances", [False, True])
def test_the_compiled_nets_slopes_are_those_of_its_scores(
    treebank: ProbeTreebank, has_distances: bool
) -> None:
    vectors = made_vectors()
    net = WordNet(vectors, has_distances)
    _, batch = next(make_batches(treebank.take(np.arange(5)), vectors.row_of, has_maps=False))
    net.losses(batch)[0].sum().backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None
        flat, place, step = weight.data.view(-1), weight.numel() // 2, 2e-3
        losses = []
        for sign in (1, -1):
            flat[place] += sign * step
            losses.append(float(net.losses(batch)[0].sum().detach()))
            flat[place] -= sign * step
        slope = (losses[0] - losses[1]) / (2 * step)
        assert float(weight.grad.view(-1)[place]) == pytest.approx(slope, rel=0.05, abs=0.03), name


def test_greedy_and_l1_paths_begin_with_the_planted_head(
    treebank: ProbeTreebank, other: ProbeTreebank
) -> None:
    greedy = list(greedy_path(treebank, 3))
    assert [len(part.heads) for part in greedy] == [1, 2, 3]
    assert greedy[0].heads == (SYNTAX_MAP,)
    l1 = list(l1_path(treebank, 4))
    assert l1[0].heads[0] == SYNTAX_MAP
    assert len(l1[0].heads) <= len(l1[-1].heads)
    first, *_ = score_parts([greedy[0].probe], other)
    assert first.correct.sum(0)[0] / first.count.sum(0)[0] > 0.85
    expected = score_probe(greedy[-1].probe, other).correct[:, 0].sum()
    (found,) = score_parts([greedy[-1].probe], other)
    assert found.correct.sum(0)[0] == expected


def test_l1_solutions_meet_the_conditions_of_an_optimum(treebank: ProbeTreebank) -> None:
    point = np.zeros(4 * N_LAYERS * N_HEADS + 1)
    hessian = compute_hessian(treebank, point)
    _, gradient = loss_and_gradient(treebank, point)
    penalties = np.full(len(point), 0.1 * np.abs(gradient[:-1]).max())
    penalties[-1] = 0.0
    found = solve_l1(hessian, gradient, point, penalties, n_sweeps=2000)
    slopes = gradient + hessian @ (found - point)
    is_zero = found == 0
    assert is_zero.any()
    assert (np.abs(slopes[is_zero]) <= penalties[is_zero] + 1e-8).all()
    np.testing.assert_allclose(
        slopes[~is_zero], -penalties[~is_zero] * np.sign(found[~is_zero]), atol=1e-6
    )


def test_parts_leave_out_what_they_say(treebank: ProbeTreebank) -> None:
    parts = {part.name: part for part in fit_parts(treebank, [0, 1, 2]) if part.name != "greedy"}
    assert (parts["without special tokens"].probe.weights[2:] == 0).all()
    assert (parts["dependent-to-head alone"].probe.weights[1] == 0).all()
    assert (parts["head-to-dependent alone"].probe.weights[0] == 0).all()
    assert parts["layer 2"].heads == tuple(range(N_HEADS, 2 * N_HEADS))
    weights = parts["layer 2"].probe.weights
    assert (weights[:, :N_HEADS] == 0).all()
    alone, _ = fit_attention_only(treebank.only(parts["layer 2"].heads), 1e-4)
    np.testing.assert_allclose(weights[:, N_HEADS : 2 * N_HEADS], alone.weights)
    assert fit_heads("some", treebank, [3]).probe.weights.any(axis=0).nonzero()[0].tolist() == [3]
    assert PENALTY > 0


def test_position_heads_are_those_that_look_beside(tmp_path: Path) -> None:
    def look_back(encoding) -> torch.Tensor:  # type: ignore[no-untyped-def]
        maps = random_maps(encoding)
        n = maps.shape[-1]
        maps[1, 2] = 0.1 / n
        maps[1, 2, range(1, n), range(n - 1)] = 0.9
        return maps

    treebank = store(tmp_path, make_examples(30), MadeSource(look_back))
    assert find_position_heads(treebank) == {N_HEADS + 2}


def test_the_spread_of_seeds_widens_intervals() -> None:
    from headscope.stats.interval import Estimate

    base = Estimate(0.5, 0.47, 0.53)
    one, many = (add_spread(base, np.array(values), (0, 1)) for values in ([0.5], [0.4, 0.6]))
    assert (one.low, one.high) == (0.47, 0.53)
    assert many.low < 0.47
    assert many.high > 0.53
    difference = Difference(0.1, 0.05, 0.15, 0.02, 0.001, 0.0005, 0.06)
    same = add_seeds(difference, 40, np.array([0.3]), np.array([0.2]))
    assert same == difference
    wider = add_seeds(difference, 40, np.array([0.25, 0.35]), np.array([0.2]))
    assert wider.error == pytest.approx(np.hypot(0.02, 0.05))
    assert wider.low < 0 < wider.high
    assert wider.p_value > 0.05


def test_the_score_of_several_seeds_is_their_mean(other: ProbeTreebank) -> None:
    vectors = made_vectors()
    net = WordNet(vectors, has_distances=True, seeds=(0, 1, 2))
    joined = score_probe(net, other, vectors.row_of)
    alone = []
    for place in range(3):
        with net.only(place):
            alone.append(score_probe(net, other, vectors.row_of))
    np.testing.assert_allclose(joined.by_seed, [one.shares for one in alone])
    np.testing.assert_allclose(joined.correct, np.mean([one.correct for one in alone], axis=0))
    by_relation = np.mean([one.relation_correct for one in alone], axis=0)
    np.testing.assert_allclose(joined.relation_correct, by_relation)
