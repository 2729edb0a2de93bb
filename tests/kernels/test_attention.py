"""Compiled attention against the formula in double precision."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headscope.kernels.attention import attend, find_product
from headscope.kernels.lanes import exp, from_order, in_order

pytestmark = pytest.mark.skipif(find_product() is None, reason="torch's BLAS cannot be called")


def reference(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, output and entropies: the definition, a group's keys repeated for its heads."""
    n_times = query.shape[1] // key.shape[1]
    key, value = (rows.double().repeat_interleave(n_times, dim=1) for rows in (key, value))
    scores = scale * query.double() @ key.mT
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return weights, weights @ value, torch.special.entr(weights).sum(-1)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(1, 40)),
    n_times=st.integers(1, 3),
    parts=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
    hidden=st.sampled_from(["nothing", "by row", "by head and row", "one row for all"]),
    seed=st.integers(0, 1000),
)
def test_compiled_attention_is_the_formula(
    shape: tuple[int, int, int, int], n_times: int, parts: tuple[int, int], spread: float,
    hidden: str, seed: int,
) -> None:  # fmt: skip
    (n_examples, n_groups, n_rows, n_keys), (n_parts, n_sizes) = shape, parts
    n_heads, random = n_groups * n_times, torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:  # rows of heads lie apart, as in a model
        return torch.randn(n_examples, *shape, generator=random).transpose(1, 2)

    query, key = draw(n_rows, n_heads, n_parts) * spread, draw(n_keys, n_groups, n_parts)
    value, scale, mask = draw(n_keys, n_groups, n_sizes), n_parts**-0.5, None
    if hidden != "nothing":
        heads, rows = n_heads if "head" in hidden else 1, 1 if "one" in hidden else n_rows
        is_hidden = torch.rand(1, heads, rows, n_keys, generator=random) < 0.4
        is_hidden[..., 0] = False
        mask = torch.zeros(is_hidden.shape).masked_fill(is_hidden, torch.finfo().min)
    weights = torch.full((n_examples, n_heads, n_rows, n_keys), torch.nan)
    output = torch.full((n_examples, n_rows, n_heads, n_sizes), torch.nan)
    entropy = attend(query, key, value, mask, scale, weights, output.transpose(1, 2))
    expected = reference(query, key, value, mask, scale)
    for found, wanted in zip((weights, output.transpose(1, 2), entropy), expected, strict=True):
        torch.testing.assert_close(found, wanted.float(), atol=2e-5, rtol=0)
    if mask is not None:
        assert (weights[(mask < 0).expand(weights.shape)] == 0).all()


def test_a_hidden_key_may_be_minus_infinity_and_nan_stays_nan() -> None:
    query, key, value = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4), torch.ones(1, 1, 3, 4)
    query[0, 0, 1, 0] = torch.nan
    mask = torch.tensor([0.0, 0.0, -torch.inf]).expand(1, 1, 2, 3)
    weights, output = torch.empty(1, 1, 2, 3), torch.empty(1, 1, 2, 4)
    entropy = attend(query, key, value, mask, 0.5, weights, output)
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([0.5, 0.5, 0.0]))
    assert entropy[0, 0, 0].item() == pytest.approx(np.log(2))
    for numbers in (weights, output, entropy):
        assert numbers[0, 0, 1].isnan().all()


@given(x=st.floats(-86, 0, width=32))
def test_exp_is_right_to_the_rounding_of_its_argument(x: float) -> None:
    found = float(exp(np.float32(x)))
    assert found == pytest.approx(np.exp(x), rel=2e-7 * (1 + abs(x)))


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_integers_have_the_order_of_their_floats(a: float, b: float) -> None:
    one, other = in_order(np.float32(a)), in_order(np.float32(b))
    assert (one < other) == (a < b) or (a, b) == (0, 0)  # -0 comes before 0
    assert from_order(one) == np.float32(a)


def test_code_just_compiled_rounds_as_code_from_the_cache(tmp_path: Path) -> None:
    script = (
        "import torch\n"
        "from headscope.kernels.attention import attend\n"
        "torch.manual_seed(0)\n"
        "q, k, v = torch.randn(3, 2, 3, 57, 32)\n"
        "weights, output = torch.empty(2, 3, 57, 57), torch.empty(2, 3, 57, 32)\n"
        "entropy = attend(q, k, v, None, 0.2, weights, output)\n"
        "print([part.numpy().tobytes().hex() for part in (weights, output, entropy)])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert list(tmp_path.rglob("*.nbc")), "nothing was kept"
    assert said[0] == said[1]


def test_compiled_code_leaves_the_threads_of_torch_as_they_are() -> None:
    script = (
        "import torch; torch.set_num_threads(1)\n"
        "from headscope.kernels.threads import use_torch_threads; use_torch_threads()\n"
        "import numba; print(torch.get_num_threads(), numba.get_num_threads())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "1"]
