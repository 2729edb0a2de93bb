"""The store of word attention: whole, checked, and written once."""

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.words import word_weights
from headscope.errors import OutputError
from headscope.probes import store as store_module
from headscope.probes.baselines import SingleHead
from headscope.probes.batches import score_sentences
from headscope.probes.store import decode_weights, encode_weights
from headscope.probes.treebank import NO_HEAD
from tests.making import N_HEADS, N_LAYERS, MadeSource, make_example
from tests.probes.made import MADE, make_examples, store


def find_store(folder: Path) -> Path:
    return next(folder.iterdir())


@dataclass(frozen=True)
class CountingSource(MadeSource):
    """A source that counts how often it is run."""

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        CALLS.append(len(batch))
        super().attend(batch, observe)


CALLS: list[int] = []


@dataclass(frozen=True)
class OtherSource(MadeSource):
    def describe(self) -> dict[str, object]:
        return {"name": "other", "digest": "other"}


def test_maps_come_back_as_they_were_measured(tmp_path: Path) -> None:
    examples = {example.id: example for example in make_examples(9)}
    maps = store(tmp_path, list(examples.values()), batch_tokens=16).maps
    for place, example_id in enumerate(maps.ids):
        batch = MADE.batch(MADE.encode([examples[example_id]], 512))
        layers: list[LayerAttention] = []
        MADE.attend(batch, layers.append)
        found = maps.sentence(place)  # [word, other, map]
        n = len(found)
        for attention in layers:
            heads = slice(attention.layer * N_HEADS, (attention.layer + 1) * N_HEADS)
            expected = word_weights(attention)[0].permute(1, 2, 0)
            torch.testing.assert_close(found[:, :n, heads].double(), expected, rtol=1e-3, atol=1e-6)
        to_specials = 1 - found[:, :n].double().sum(1)  # a row of attention sums to 1
        torch.testing.assert_close(found[:, n:].double().sum(1), to_specials, rtol=0, atol=2e-3)


def test_attention_to_opening_and_closing_tokens_stands_apart(tmp_path: Path) -> None:
    def look_at_opening(encoding) -> torch.Tensor:  # type: ignore[no-untyped-def]
        maps = torch.zeros(3, 5, len(encoding), len(encoding))
        maps[..., 0] = 0.75
        maps[..., -1] = 0.25
        return maps

    treebank = store(tmp_path, make_examples(3), MadeSource(look_at_opening))
    for place in range(3):
        cells = treebank.maps.sentence(place)
        assert (cells[:, -2] == 0.75).all()
        assert (cells[:, -1] == 0.25).all()
        assert (cells[:, :-2] == 0).all()


def look_away(encoding: Encoding) -> torch.Tensor:
    """Maps that give all but 1e-18 to 1e-7 to the opening token; every third word all of it."""
    n = len(encoding)
    rng = np.random.default_rng(encoding.example.key % 2**32)
    maps = 10.0 ** rng.uniform(-18, -7, (N_LAYERS, N_HEADS, n, n))
    maps[:, :, ::3] = 0
    maps[..., 0] = 1 - maps[..., 1:].sum(-1)
    return torch.from_numpy(maps)


def test_the_smallest_weights_keep_their_order_and_make_no_root(tmp_path: Path) -> None:
    """Of every head, in both directions, what is found in the maps themselves in float64."""
    examples = {example.key: example for example in make_examples(20)}
    source = MadeSource(look_away, pieces=lambda word, place: 1)
    treebank = store(tmp_path, list(examples.values()), source)
    n_roots = 0
    for map_, direction in product(range(N_LAYERS * N_HEADS), (0, 1)):
        for place, scores in score_sentences(SingleHead(map_, direction), treebank):
            (encoding,) = source.encode([examples[treebank.sentences[place].key]], 512)
            words = np.flatnonzero(encoding.word_ids >= 0)
            weights = look_away(encoding).flatten(0, 1)[map_].numpy()[np.ix_(words, words)]
            weights = weights.T if direction else weights.copy()
            np.fill_diagonal(weights, 0)
            expected = np.where(weights.max(1) > 0, weights.argmax(1), len(words))
            np.testing.assert_array_equal(scores.argmax(1), expected)
            n_roots += int((expected == len(words)).sum())
    assert n_roots


@pytest.mark.parametrize("least", [1e-300, 1e-30, 2**-62, 1e-12, 1e-3])
def test_a_weight_is_stored_to_a_thousandth_and_zero_alone_as_zero(least: float) -> None:
    weights = torch.tensor([0.0, least, 3 * least, 0.1, 0.999, 1.0], dtype=torch.float64)
    stored = decode_weights(encode_weights(weights).numpy())
    assert (stored > 0).tolist() == (weights > 0).tolist()
    torch.testing.assert_close(
        stored.double(), weights.clamp_min(2**-62) * (weights > 0), rtol=5e-4, atol=0
    )


def test_words_without_tokens_are_left_out_with_their_arcs(tmp_path: Path) -> None:
    examples = make_examples(40)
    source = MadeSource(pieces=lambda word, place: 0 if word == "boat" else 1)
    treebank = store(tmp_path, examples, source)
    by_key = {example.key: example for example in examples}
    n_lost = 0
    for sentence, size in zip(treebank.sentences, treebank.maps.index.sizes, strict=True):
        example = by_key[sentence.key]
        words, tree = example.words or (), example.tree
        kept = [i for i, word in enumerate(words) if word != "boat"]
        assert len(sentence) == size == len(kept)
        for place, word in enumerate(kept):
            head = tree.heads[word]  # type: ignore[union-attr]
            expected = head if head < 0 else kept.index(head) if head in kept else NO_HEAD
            assert sentence.heads[place] == expected
            n_lost += expected == NO_HEAD
    assert n_lost
    assert treebank.maps.index.counts["unaligned_words"] > 0
    assert treebank.n_arcs == treebank.sizes.sum() - n_lost


def test_a_second_run_does_not_touch_the_model(tmp_path: Path) -> None:
    CALLS.clear()
    first = store(tmp_path, make_examples(9), CountingSource())
    n_calls = len(CALLS)
    second = store(tmp_path, make_examples(9), CountingSource(), batch_tokens=64)
    assert n_calls > 0
    assert len(CALLS) == n_calls
    assert torch.equal(first.maps.cells(0, 9), second.maps.cells(0, 9))
    store(tmp_path, make_examples(8), CountingSource())  # other sentences: another store
    assert len(CALLS) > n_calls


def test_only_a_window_of_the_file_is_read(tmp_path: Path) -> None:
    maps = store(tmp_path, make_examples(9)).maps
    whole = maps.cells(0, 9)
    parts = [maps.cells(place, place + 1) for place in range(9)]
    assert torch.equal(whole, torch.cat(parts))
    parts[0].zero_()  # a private copy: the file stays
    assert torch.equal(whole, maps.cells(0, 9))
    with (maps.path / "maps.u16").open("r+b") as stream:
        stream.truncate(whole.numel() * 2 - 1)
    assert torch.equal(whole[: len(parts[0])], maps.cells(0, 1))
    with pytest.raises(OutputError, match=r"has been cut: maps\.u16 ends too early"):
        maps.cells(8, 9)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: damage(folder / "maps.u16"), r"checksum of maps\.u16 differs"),
        (lambda folder: (folder / "maps.u16").write_bytes(b"12"), "truncated: it has 2 bytes"),
        (lambda folder: (folder / "maps.u16").unlink(), "cannot be read"),
        (lambda folder: (folder / "header.json").write_text("{"), "cannot be read"),
    ],
)
def test_a_damaged_store_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    store(tmp_path, make_examples(5))
    spoil(find_store(tmp_path))
    with pytest.raises(OutputError, match=reason) as error:
        store(tmp_path, make_examples(5))
    assert "remove the folder" in str(error.value)


def test_a_store_of_another_version_or_model_is_refused(tmp_path: Path) -> None:
    store(tmp_path / "a", make_examples(5))
    store(tmp_path / "b", make_examples(5), OtherSource())
    mine, other = find_store(tmp_path / "a"), find_store(tmp_path / "b")
    assert mine.name != other.name
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    with pytest.raises(OutputError, match=r"another model \(other, not made\)"):
        store(tmp_path / "a", make_examples(5))
    header = json.loads((other / "header.json").read_text())
    (other / "header.json").write_text(json.dumps({**header, "version": 99}))
    with pytest.raises(OutputError, match="version 99"):
        store(tmp_path / "b", make_examples(5), OtherSource())


def test_a_disk_that_is_too_small_is_refused_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    CALLS.clear()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    with caplog.at_level("INFO"), pytest.raises(OutputError, match="1 MB free"):
        store(tmp_path, make_examples(9), CountingSource())
    assert "0.0 MB" in caplog.text  # the size is said first
    assert CALLS == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, flush: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module, "_flush", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        store(tmp_path, make_examples(9))
    assert list(tmp_path.iterdir()) == []


def test_samples_are_nested_and_do_not_depend_on_order(tmp_path: Path) -> None:
    examples = make_examples(30)
    treebank = store(tmp_path / "a", examples)
    turned = store(tmp_path / "b", examples[::-1])

    def keys(n: int, bank=treebank, seed: int = 0) -> set[int]:  # type: ignore[no-untyped-def]
        return {sentence.key for sentence in bank.choose(n, seed).sentences}

    assert keys(5) < keys(12)
    assert keys(12) == keys(12, turned)
    assert keys(12) != keys(12, seed=1)
    assert treebank.hold_out(10, 0).sum() == 10  # every sentence is a document of its own
    assert treebank.hold_out(30, 0).sum() == 29  # something is left to learn from
    chosen = treebank.choose(5, 0)
    for sentence, index in zip(chosen.sentences, chosen.stored_at, strict=True):
        assert len(treebank.maps.sentence(int(index))) == len(sentence)


def test_nan_attention_is_refused(tmp_path: Path) -> None:
    source = replace(
        MADE, maps=lambda encoding: torch.full((3, 5, len(encoding), len(encoding)), np.nan)
    )
    with pytest.raises(Exception, match="not numbers"):
        store(tmp_path, [make_example(0)], source)
    assert list(tmp_path.iterdir()) == []
