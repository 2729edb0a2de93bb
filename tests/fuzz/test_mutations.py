"""Mutations of all formats, found by hypothesis: read whole, or refused in a few words."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.corpora.opening import open_corpus
from tests.fuzz.commands import try_command
from tests.fuzz.corpora import (
    ACCEPTED,
    REFUSED,
    Failure,
    check_message,
    try_corpus,
    try_folder,
)
from tests.fuzz.mutate import mutate
from tests.fuzz.oracle import find_loss
from tests.fuzz.runs import make_model, make_run, try_run
from tests.fuzz.seeds import SEEDS, Seed

DECIDED = (ACCEPTED, REFUSED)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    make_run(folder)
    make_model(folder)
    return folder


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.role}-{seed.name}")
@settings(max_examples=150)
@given(rng=st.randoms(use_true_random=False))
def test_bad_files_are_read_whole_or_refused(seed: Seed, rng: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert try_corpus(rng, Path(folder), seed) in DECIDED


@settings(max_examples=100)
@given(rng=st.randoms(use_true_random=False))
def test_folders_with_bad_files_are_read_whole_or_refused(rng: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert try_folder(rng, Path(folder)) in DECIDED


@pytest.mark.parametrize("seed", range(12))
def test_damaged_runs_are_read_as_they_were_or_refused(
    seed: int, tmp_path: Path, good_run: Path
) -> None:
    assert try_run(Random(seed), tmp_path, good_run) in DECIDED


@pytest.mark.parametrize("seed", range(12))
def test_bad_command_lines_are_refused_in_a_few_words(
    seed: int, tmp_path: Path, good_run: Path
) -> None:
    assert try_command(Random(seed), tmp_path, good_run) in DECIDED


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.role}-{seed.name}")
def test_good_files_are_accepted_and_the_oracle_sees_a_loss(seed: Seed, tmp_path: Path) -> None:
    (tmp_path / seed.name).write_text(seed.content)
    examples = list(open_corpus(tmp_path / seed.name, seed.role))
    assert find_loss(seed.name, seed.role, seed.content.encode(), examples) == ""
    assert find_loss(seed.name, seed.role, seed.content.encode(), examples[1:]) != ""


def test_the_campaign_is_seeded_and_a_failure_is_told(tmp_path: Path) -> None:
    assert mutate(Random(3), b"one\ntwo\n") == mutate(Random(3), b"one\ntwo\n")
    with pytest.raises(Failure, match="echoes much of the file"):
        check_message(f"a.txt: {'ab' * 200}", Path("a.txt"), b"ab" * 300)
