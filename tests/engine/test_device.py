"""What runs on a device stays there until a batch is done.

No accelerator is needed: tensors on torch's `meta` device have no numbers, so anything that asks
for one (`.cpu()`, `.item()`, `.tolist()`, `.numpy()`, `if tensor:`) fails. A watcher refuses
operations that mix tensors of two devices, which fail on a real one, and after the first layer
of a batch all that moves from one device to the other.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headscope.contracts import Source, Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch
from headscope.data.reading import SUMS, RowReading
from headscope.data.sampled_rows import SampledRows
from headscope.engine.measure import Result, _Observer, name_analyses
from headscope.errors import ModelError
from headscope.kernels.jensen_shannon import sum_pairs_in_torch, sum_pairs_on_device
from headscope.models import slices
from headscope.models.loaded import wrap_model
from headscope.models.seq2seq import Seq2SeqModel
from headscope.options import RunOptions
from headscope.registry import ANALYSES
from tests.making import MadeSource, make_example, make_pair
from tests.models.tiny import FAMILIES, build_model, build_tokenizer

META = torch.device("meta")
MOVES = ("aten._to_copy", "aten.copy_", "aten.to.")


class OneDevice(TorchDispatchMode):
    """An error for an operation on tensors of two devices; numbers (no axis) may be anywhere.

    What moves from one to the other is an error too once `may_move` is taken away.
    """

    may_move = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        may_move = self.may_move and str(func).startswith(MOVES)
        tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
        devices = {tensor.device.type for tensor in tensors if tensor.ndim}
        if len(devices) > 1 and not may_move:
            raise RuntimeError(f"{func} mixes tensors on {sorted(devices)}")
        return result


def make_batch(watch: Watch = Watch.ATTENTION) -> Batch:
    """Four examples of one length."""
    is_across = watch is Watch.CROSS_ATTENTION
    make = make_pair if is_across else make_example
    examples = [make(seed, n_words=6) for seed in range(4)]
    return Batch(tuple(MadeSource(emits=watch).encode(examples, 512)), META)


def observations(watch: Watch, batch: Batch, device: OneDevice) -> Iterator[Any]:
    """Two layers of five heads on the device; after the first, nothing may move."""
    source = MadeSource(emits=watch)
    n_queries = (batch.target if watch is Watch.CROSS_ATTENTION else batch).n_tokens
    for layer in range(2):
        weights = torch.rand(len(batch), 5, n_queries, batch.n_tokens, device=META)
        yield source._show(layer, weights, batch)
        device.may_move = False


def variants(name: str) -> list[Any]:
    """An analysis as it is by default, and with each of its choices turned round."""
    kind = ANALYSES.find(name).load()
    others = [
        {f.name: "first" if f.name == "query_pieces" else not f.default}
        for f in fields(kind)
        if f.name == "query_pieces" or isinstance(f.default, bool)
    ]
    return [kind(), *(kind(**other) for other in others)]


KINDS = dict(ANALYSES.load_all())
SHOWN = [(name, kind.watches) for name, kind in KINDS.items()]
SHOWN = [(name, watch) for name, watch in SHOWN if watch is not Watch.MODEL_PAIR]
SHOWN += [(name, Watch.CROSS_ATTENTION) for name, kind in KINDS.items() if kind.measures_cross]


@pytest.mark.parametrize(("name", "watch"), SHOWN)
def test_analyses_read_and_measure_where_the_model_is(name: str, watch: Watch) -> None:
    for analysis in variants(name):
        with OneDevice() as device:
            read, readings = [], analysis.reads
            for layer in observations(watch, make_batch(watch), device):
                assert layer.is_finite().device == META
                read += [layer.read(reading) for reading in readings]
            tensors = [leaf for leaf in tree_leaves(read) if isinstance(leaf, Tensor)]
            assert all(tensor.device == META for tensor in tensors)


def test_rows_of_all_layers_are_kept_and_compared_on_the_device() -> None:
    batch, sampled = make_batch(), SampledRows(n_rows=4, max_heads=6)
    with OneDevice() as device:
        layers = observations(Watch.ATTENTION, batch, device)
        rows = sampled.join([replace(layer, n_layers=2).read(sampled) for layer in layers])
        sums = sum_pairs_on_device(rows.weights, 0)
    assert (sums.device, sums.shape) == (META, (len(batch), 6, 6))


def test_sums_on_the_device_are_those_of_the_reference() -> None:
    weights = torch.rand(2, 3, 4, 5, generator=torch.manual_seed(0), dtype=torch.float64)
    found = sum_pairs_in_torch(weights)
    both = weights[:, :, 0] + weights[:, :, 2]
    expected = (both * both.log2()).sum((1, 2))
    torch.testing.assert_close(torch.from_numpy(found)[:, 0, 2], expected)


class _Shows(Source[Any]):
    """A source that shows these observations."""

    n_layers, n_heads = 2, 5

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def attend(self, batch: Batch, observe: Any) -> None:
        with OneDevice() as device:
            for observed in observations(self.watch, batch, device):
                observe(observed)
        raise StopAsyncIteration  # the engine got through all layers without reading a number


@pytest.mark.parametrize(
    "watch", [Watch.ATTENTION, Watch.CROSS_ATTENTION, Watch.GRADIENT, Watch.CHANGE]
)
def test_the_engine_reads_nothing_before_the_last_layer(watch: Watch) -> None:
    analyses = [ANALYSES.find(name).load()() for name, shown in SHOWN if shown is watch]
    assert analyses
    source: Any = _Shows(watch)
    observer = _Observer(source, name_analyses(analyses), RunOptions(), Result())
    with pytest.raises(StopAsyncIteration):
        observer.measure(make_batch(watch))


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "modernbert", "t5"])
def test_the_tap_runs_a_model_without_reading_its_device(family: str) -> None:
    source = wrap_model(build_model(family), build_tokenizer(FAMILIES[family].tokenizer), family)
    assert source.n_layers == 3  # how it is seen is found on the CPU
    (encoding,) = source.encode([make_example(1, n_words=6)], 20)
    # of an encoder transformers asks, before the first layer, whether the mask masks anything
    left_out = () if FAMILIES[family].is_causal else ("attention_mask",)
    inputs = {name: ids for name, ids in encoding.inputs.items() if name not in left_out}
    source.model.to(META)
    assert observe(source, Batch((replace(encoding, inputs=inputs),), META)) == [META] * 3


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gemma2", "modernbert"])
def test_slices_are_read_without_reading_the_device(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = wrap_model(build_model(family), build_tokenizer(FAMILIES[family].tokenizer), family)
    assert source.is_sliced  # found on the CPU
    (encoding,) = source.encode([make_example(1, n_words=9)], 20)
    left_out = () if FAMILIES[family].is_causal else ("attention_mask",)
    inputs = {name: ids for name, ids in encoding.inputs.items() if name not in left_out}
    source.model.to(META)
    batch = Batch((replace(encoding, inputs=inputs),), META)
    n_rows = len(encoding) // 2
    monkeypatch.setattr(slices, "DEVICE_NUMBERS", n_rows * source.n_heads * len(encoding))
    sizes: list[tuple[int, ...]] = []

    class Sizes(RowReading):
        def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
            sizes.append(tuple(weights.shape[2:]))
            return weights.sum(-1)

    seen: list[LayerAttention] = []
    with OneDevice() as device:

        def see(attention: LayerAttention) -> None:
            seen.append(attention)
            device.may_move = False

        source.read(batch, [SUMS, Sizes()], 1, see)
    assert len(seen) == source.n_layers
    assert all(layer.read(SUMS).sums.entropy.device == META for layer in seen)
    n_keys = n_rows if FAMILIES[family].is_causal else len(encoding)
    assert sizes[0] == (n_rows, n_keys)  # as many rows as there is room for; only keys they see


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    model = build_model("llama").to(dtype)
    source = wrap_model(model, build_tokenizer(FAMILIES["llama"].tokenizer), "half")
    batch = source.batch(source.encode([make_example(1, n_words=9)], 20))

    class RowSums(RowReading):
        def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
            return weights.sum(-1)

    seen: list[LayerAttention] = []
    sums = RowSums()
    source.read(batch, [sums], 4, seen.append)
    assert source.is_sliced
    assert len(seen) == source.n_layers
    ones = torch.ones(1, source.n_heads, batch.n_tokens)
    for layer in seen:  # weights that were rounded to half precision sum to 1 within 0.004 only
        torch.testing.assert_close(layer.read(sums), ones, atol=1e-6, rtol=0)


def test_the_tap_runs_an_encoder_decoder_without_reading_its_device() -> None:
    model = build_model("t5", decoder_start_token_id=0, num_decoder_layers=2)
    source = Seq2SeqModel(wrap_model(model, build_tokenizer("t5"), "t5"))
    assert [part.n_layers for part in source.parts.values()] == [3, 2, 2]
    (encoding,) = source.encode([make_pair(1, n_words=6)], 20)
    inputs = {"input_ids": encoding.inputs["input_ids"]}
    source.whole.to(META)
    assert observe(source, Batch((replace(encoding, inputs=inputs),), META)) == [META] * 7


def observe(source: Any, batch: Batch) -> list[torch.device]:
    """Where the layers are that a source shows; after the first, nothing may move."""
    seen: list[torch.device] = []
    with OneDevice() as device:

        def see(attention: LayerAttention) -> None:
            seen.append(attention.weights.device)
            assert attention.visible.device == META
            device.may_move = False

        source.attend(batch, see)
    return seen


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
