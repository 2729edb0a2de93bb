"""Maps in few bytes: what the browser will make of them is the model's map, to what is said."""

from base64 import b64decode
from zlib import decompress

import numpy as np
import pytest
from numpy.typing import NDArray

from headscope.data.example import Example
from headscope.explore import pack
from headscope.explore.maps import read_maps
from headscope.explore.pack import PackedMaps, pack_maps
from headscope.models.loaded import LoadedModel, wrap_model
from tests.models import every_family
from tests.models.test_families import source_of
from tests.models.tiny import build_tokenizer

TEXT = "The old boat sails home before the storm, and nobody on the shore sees it."


def read_layer(packed: PackedMaps, layer: int, n: int, n_heads: int) -> NDArray[np.float64]:
    """A layer's maps, by the obvious formulas."""
    raw = decompress(b64decode(packed.layers[layer]), wbits=-15)
    if packed.form == "roots8":
        return (np.frombuffer(raw, np.uint8).reshape(n_heads, n, n) / 255.0) ** 2
    if packed.form == "roots16":
        return (np.frombuffer(raw, "<u2").reshape(n_heads, n, n) / 65535.0) ** 2
    size, groups = packed.shape["parts"], packed.shape["groups"]
    halves = np.frombuffer(raw, np.float16)
    queries = halves[: n_heads * n * size].reshape(n_heads, n, size).astype(float)
    keys = halves[n_heads * n * size :][: groups * n * size].reshape(groups, n, size).astype(float)
    ranges = np.frombuffer(raw, "<u2")[-2 * n :].reshape(n, 2)
    maps = np.zeros((n_heads, n, n))
    for head in range(n_heads):
        for query in range(n):
            first, end = ranges[query]
            own = keys[head * groups // n_heads][first:end] @ queries[head, query]
            shares = np.exp(own - own.max())
            maps[head, query, first:end] = shares / shares.sum()
    return maps


def packed_and_true(source: LoadedModel, text: str = TEXT) -> tuple[PackedMaps, float]:
    (encoding,) = source.encode([Example("x", text=text)], source.max_tokens)
    packed, kept = pack_maps(source, encoding), read_maps(source, encoding)
    n, worst = len(encoding), 0.0
    for layer in range(source.n_layers):
        maps = read_layer(packed, layer, n, source.n_heads)
        true = np.stack([kept.weights(layer, h).numpy() for h in range(source.n_heads)])
        worst = max(worst, float(np.abs(maps - true).max()))
    assert (packed.thumbs.roots == kept.thumbs.roots).all()
    return packed, worst


@pytest.mark.parametrize(
    "name", ["bert", "llama", "gpt2", "gemma2", "modernbert", "bart", "t5", "deberta-v2", "bloom"]
)
def test_packed_maps_are_the_models_to_the_stated_precision(name: str) -> None:
    packed, worst = packed_and_true(source_of(name))
    assert worst <= packed.precision + 1e-6


@pytest.mark.parametrize("name", ["doge", "granite_swa"])  # a named mask; rows scaled afterwards
def test_families_that_call_attention_in_their_own_way_are_packed(name: str) -> None:
    source = wrap_model(every_family.build(name), build_tokenizer("roberta"), name)
    packed, worst = packed_and_true(source)
    assert worst <= packed.precision + 1e-6


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_queries_and_keys_give_the_maps_where_they_are_smaller(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "pack_roots", lambda weights: np.random.default_rng(0).bytes(10**5))
    packed, worst = packed_and_true(source_of(name))
    assert packed.form == "qk"
    assert worst <= packed.precision + 1e-6 < 0.01


def test_maps_that_queries_and_keys_do_not_give_are_kept_as_roots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pack, "MOST_ERROR", -1.0)
    packed, worst = packed_and_true(source_of("bert"))
    assert packed.form == "roots16"
    assert worst <= packed.precision
    monkeypatch.setattr(pack, "WIDE_BYTES", 0)
    for n_times in (1, 8):  # of the long text, queries and keys are tried alone first
        packed, worst = packed_and_true(source_of("bert"), " ".join([TEXT] * n_times))
        assert packed.form == "roots8"
        assert worst <= packed.precision


def test_of_long_texts_no_maps_are_packed_where_queries_and_keys_give_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pack, "WIDE_BYTES", 0)
    monkeypatch.delattr(pack, "_pack8")
    packed, worst = packed_and_true(source_of("bert"), " ".join([TEXT] * 8))
    assert packed.form == "qk"
    assert worst <= packed.precision + 1e-6
