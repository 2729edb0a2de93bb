"""Examples of long inputs are drawn from a window of their maps, without whole maps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import headscope as hs
from headscope.engine import examples
from headscope.engine.head_views import run_heads
from headscope.models.load import load_model

TEXT = " ".join(f"Boat {number} sails home over the sea." for number in range(30))


@pytest.fixture(scope="module")
def source() -> Any:
    return load_model("demo")


def test_a_window_of_a_long_example_has_the_weights_of_its_whole_maps(
    source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "LONG", 40)
    [encoding] = source.encode([hs.Example("a", text=TEXT)], 512)
    heads = {(0, 0, 2), (0, 3, 7)}
    whole = run_heads(source, [encoding], heads)
    [window], maps = examples._read_maps(source, [encoding], heads)
    assert len(window) == 40
    start = next(
        place
        for place in range(len(encoding))
        if encoding.surfaces[place : place + 40] == window.surfaces
        and np.allclose(
            whole[0, 0, 2][place : place + 40, place : place + 40], maps[0, 0, 2], atol=1e-6
        )
    )
    part = slice(start, start + 40)
    assert np.allclose(whole[0, 3, 7][part, part], maps[0, 3, 7], atol=1e-6)
    assert (window.kinds == encoding.kinds[part]).all()
    strongest = whole[0, 0, 2].max(axis=1)
    strongest[encoding.kinds != 0] = 0
    assert start <= int(strongest.argmax()) < start + 40


def test_a_window_reads_slices_of_any_size_alike() -> None:
    maps = torch.rand(1, 2, 9, 9)
    reading = examples.MapWindow(3, 7)
    for size in (1, 2, 4, 9):
        total = torch.zeros(1, 2, 4, 4)
        for first in range(0, 9, size):
            rows = maps[:, :, first : first + size]
            reading.add(total, examples.MapSlice(rows, 0, first))
        assert (total == maps[:, :, 3:7, 3:7]).all()


def test_keys_that_no_row_of_a_slice_can_see_are_0_in_a_window() -> None:
    weights = torch.tril(torch.rand(1, 1, 6, 6))
    reading, total = examples.MapWindow(2, 5), torch.zeros(1, 1, 3, 3)
    for row in range(6):  # a causal slice ends at the last key that its rows see
        reading.add(total, examples.MapSlice(weights[:, :, row : row + 1, : row + 1], 0, row))
    assert (total == weights[:, :, 2:5, 2:5]).all()


def test_no_whole_map_is_asked_for_long_examples(
    source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("whole maps")

    monkeypatch.setattr(examples, "LONG", 40)
    monkeypatch.setattr(examples, "run_heads", refuse)
    texts = [TEXT, TEXT.replace("Boat", "Ship"), TEXT.replace("sea", "lake")]
    run = hs.analyze("demo", text=texts, only="position", max_tokens=300, progress=False)
    assert run.examples
    assert all(len(replace(shown.view).units) <= 40 for shown in run.examples)
