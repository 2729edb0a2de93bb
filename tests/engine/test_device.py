"""What runs on a device stays there until a batch is done.

No accelerator is needed: tensors on torch's `meta` device have no numbers, so anything that asks
for one (`.cpu()`, `.item()`, `.tolist()`, `if tensor:`) fails, and a watcher refuses operations
that mix tensors of two devices, which fail on a real one.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headscope.contracts import Watch
from headscope.data.attention import LayerAttention, LayerChange, LayerGradient
from headscope.data.encoding import Batch
from headscope.engine.measure import Result, RowBuffer, _Observer, name_analyses
from headscope.errors import ModelError
from headscope.kernels.jensen_shannon import sum_pairs_in_torch, sum_pairs_on_device
from headscope.models.loaded import wrap_model
from headscope.options import RunOptions
from headscope.registry import ANALYSES
from tests.making import MadeSource, make_example
from tests.models.tiny import FAMILIES, build_model, build_tokenizer

META = torch.device("meta")
MOVES = ("aten._to_copy", "aten.copy_")
ON_THE_HOST = {"trees"}  # compiled code for the CPU reads word maps layer by layer


class OneDevice(TorchDispatchMode):
    """An error for an operation on tensors of two devices; numbers (no axis) may be anywhere."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.ndim]
        devices = {tensor.device.type for tensor in tensors}
        if len(devices) > 1 and not str(func).startswith(MOVES):
            raise RuntimeError(f"{func} mixes tensors on {sorted(devices)}")
        return func(*args, **(kwargs or {}))


def make_batch() -> Batch:
    source = MadeSource()
    encodings = source.encode([make_example(seed, n_words=6) for seed in range(4)], 512)
    same = [e for e in encodings if len(e) == len(encodings[0])]
    return Batch(tuple(same), META)


def observations(watch: Watch, batch: Batch) -> Iterator[Any]:
    """Two layers of five heads on the device."""
    n_examples, n_tokens = len(batch), batch.n_tokens
    for layer in range(2):
        weights = torch.rand(n_examples, 5, n_tokens, n_tokens, device=META)
        if watch is Watch.GRADIENT:
            yield LayerGradient(layer, weights, batch)
        elif watch is Watch.CHANGE:
            is_measured = torch.ones(5, dtype=torch.bool, device=META)
            yield LayerChange(
                layer, weights[:, :, 0, :3], is_measured, weights[:, 0, 0, 0], "loss", batch
            )
        else:
            yield LayerAttention.full(layer, weights, batch)


LAYER_BY_LAYER = [
    name
    for name, kind in ANALYSES.load_all()
    if not kind.watches.compares_layers and kind.watches is not Watch.CROSS_ATTENTION
]


@pytest.mark.parametrize("name", LAYER_BY_LAYER)
def test_analyses_measure_where_the_model_is(name: str) -> None:
    if name in ON_THE_HOST:
        pytest.skip("measured by compiled code on the CPU")
    analysis, batch = ANALYSES.find(name).load()(), make_batch()
    with OneDevice():
        for observed in observations(analysis.watches, batch):
            assert observed.is_finite().device == META
            for array, values in analysis.measure(observed).items():
                assert values.device == META, array


def test_rows_of_all_layers_are_kept_and_compared_on_the_device() -> None:
    batch, buffer = make_batch(), RowBuffer(4, 0, 2, 5)
    with OneDevice():
        buffer.begin_batch()
        for attention in observations(Watch.ATTENTION, batch):
            attention.read(buffer)
        sums = sum_pairs_on_device(buffer.rows().weights, 0)
    assert (sums.device, sums.shape) == (META, (len(batch), 10, 10))


def test_sums_on_the_device_are_those_of_the_reference() -> None:
    weights = torch.rand(2, 3, 4, 5, generator=torch.manual_seed(0), dtype=torch.float64)
    found = sum_pairs_in_torch(weights)
    both = weights[:, :, 0] + weights[:, :, 2]
    expected = (both * both.log2()).sum((1, 2))
    torch.testing.assert_close(torch.from_numpy(found)[:, 0, 2], expected)


class _Shows:
    """A source that shows these observations."""

    n_layers, n_heads = 2, 5

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def attend(self, batch: Batch, observe: Any) -> None:
        with OneDevice():
            for observed in observations(self.watch, batch):
                observe(observed)
        raise StopAsyncIteration  # the engine got through all layers without reading a number


@pytest.mark.parametrize("watch", [Watch.ATTENTION, Watch.GRADIENT, Watch.CHANGE])
def test_the_engine_reads_nothing_before_the_last_layer(watch: Watch) -> None:
    names = set(LAYER_BY_LAYER) - ON_THE_HOST
    analyses = [a for name in names if (a := ANALYSES.find(name).load()()).watches is watch]
    assert analyses
    source: Any = _Shows(watch)
    observer = _Observer(source, name_analyses(analyses), RunOptions(), Result())
    with pytest.raises(StopAsyncIteration):
        observer.measure(make_batch())


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "modernbert", "t5"])
def test_the_tap_runs_a_model_without_reading_its_device(family: str) -> None:
    source = wrap_model(build_model(family), build_tokenizer(FAMILIES[family].tokenizer), family)
    assert source.n_layers == 3  # how it is seen is found on the CPU
    (encoding,) = source.encode([make_example(1, n_words=6)], 20)
    # of an encoder transformers asks, before the first layer, whether the mask masks anything
    left_out = () if FAMILIES[family].is_causal else ("attention_mask",)
    inputs = {name: ids for name, ids in encoding.inputs.items() if name not in left_out}
    source.model.to(META)
    seen: list[LayerAttention] = []
    with OneDevice():
        source.attend(Batch((replace(encoding, inputs=inputs),), META), seen.append)
    assert [attention.weights.device for attention in seen] == [META] * 3


def test_numbers_that_are_none_are_told_once_the_batch_is_done() -> None:
    class Broken(MadeSource):
        def attend(self, batch: Batch, observe: Any) -> None:
            seen: list[LayerAttention] = []
            super().attend(batch, seen.append)
            seen[1].weights[0, 2] = float("nan")
            for attention in seen:
                observe(attention)

    source = Broken()
    batch = source.batch(source.encode([make_example(3, n_words=5)], 512))
    analysis = ANALYSES.find("position").load()()
    with pytest.raises(ModelError, match=r"of layer 2 are not numbers \(NaN\) for example"):
        _Observer(source, name_analyses([analysis]), RunOptions(), Result()).measure(batch)
