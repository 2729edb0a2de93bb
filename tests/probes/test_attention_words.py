"""The attention-and-words probe: what it contains, and where its vectors stand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.probes.attention_only import AttentionOnly
from headscope.probes.batches import make_batches, score_sentences
from headscope.probes.vectors import WordVectors
from headscope.probes.word_nets import AttentionAndWords
from tests.making import N_HEADS, N_LAYERS
from tests.probes.made import made_vectors, make_examples, store
from tests.references.probes import attention_and_words_score

N_MAPS = N_LAYERS * N_HEADS


def random_start(seed: int = 0) -> AttentionOnly:
    return AttentionOnly(np.random.default_rng(seed).standard_normal((4, N_MAPS)), 0.3)


def random_probe(vectors: WordVectors, compat: bool = False) -> AttentionAndWords:
    probe = AttentionAndWords(vectors, random_start(), compat=compat)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in probe.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return probe


def test_without_word_weights_it_is_the_attention_only_probe(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(20)), made_vectors()
    start = random_start()
    both = AttentionAndWords(vectors, start)
    alone = dict(score_sentences(start, treebank))
    for i, scores in score_sentences(both, treebank, vectors.row_of):
        np.testing.assert_allclose(scores, alone[i], atol=1e-5)


@pytest.mark.parametrize("compat", [False, True])
def test_scores_equal_plain_loops(tmp_path: Path, compat: bool) -> None:
    treebank, vectors = store(tmp_path, make_examples(10)), made_vectors()
    probe = random_probe(vectors, compat)
    weights = {name: value[0].detach().numpy() for name, value in probe.named_parameters()}
    root = weights["embedding.root"]
    for i, scores in score_sentences(probe, treebank, vectors.row_of):
        words = [
            vectors.table[row] if (row := vectors.row_of(w)) else weights["embedding.unknown"]
            for w in treebank.sentences[i].words
        ]
        # The released code puts ROOT's vector last, but its attention first.
        shifted, at_root = ([*words[1:], root], words[0]) if compat else (words, root)
        maps = treebank.maps.sentence(i).double().numpy()
        expected = attention_and_words_score(maps, shifted, at_root, weights)
        np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_roots_vector_stands_at_root_alone_unless_compat(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(10)), made_vectors()
    for compat in (False, True):
        probe = random_probe(vectors, compat)
        before = dict(score_sentences(probe, treebank, vectors.row_of))
        with torch.no_grad():
            probe.embedding.root += 1
        after = dict(score_sentences(probe, treebank, vectors.row_of))
        for i, scores in before.items():
            n = len(scores)
            is_changed = ~np.isclose(scores, after[i], rtol=1e-4, atol=1e-4)
            if compat:  # it stands at the last word: its row, and its column as a candidate
                assert is_changed[-1][: n - 1].all()
                assert is_changed[: n - 1, n - 1].all()
                assert not is_changed[: n - 1, : n - 1].any()
            else:
                assert is_changed[:, n].all()
                assert not is_changed[:, :n].any()


def test_gradients_equal_finite_differences(tmp_path: Path) -> None:
    treebank, vectors = store(tmp_path, make_examples(6)), made_vectors()
    probe = random_probe(vectors).double()
    _, batch = next(make_batches(treebank, vectors.row_of, has_maps=True))
    batch = replace(batch, maps=batch.maps.double())  # type: ignore[union-attr]
    probe.losses(batch)[0].sum().backward()
    step = 1e-6
    for name, weight in probe.named_parameters():
        flat, gradient = weight.data.view(-1), weight.grad
        assert gradient is not None
        for i in range(0, flat.numel(), max(1, flat.numel() // 5)):
            losses = []
            for sign in (1, -1):
                flat[i] += sign * step
                losses.append(float(probe.losses(batch)[0].sum().detach()))
                flat[i] -= sign * step
            slope = (losses[0] - losses[1]) / (2 * step)
            assert gradient.view(-1)[i] == pytest.approx(slope, abs=1e-5), name
