"""Independent tasks on all cores: all results, in order, and the first error."""

from threading import get_ident

import pytest
import torch

from headscope.probes.side_by_side import run_side_by_side


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
