"""The page of families says what is so: a sample here, all of them by `make families`."""

import pytest
import transformers

from tests.models.every_family import text_families
from tests.models.family_checks import examine
from tests.models.family_page import PAGE, row_of

# One of each kind of answer.
SAMPLE = ["bert", "gpt2", "llama", "t5", "albert", "mpnet", "gpt_oss", "qwen3_next", "bitnet"]
SAMPLE += ["diffllama", "zamba2", "gemma3n_text", "squeezebert", "bros", "fsmt", "mamba", "blt"]
SAMPLE += ["layoutlmv2"]

LINES = PAGE.read_text().splitlines()


@pytest.mark.parametrize("family", SAMPLE)
def test_the_page_says_what_a_family_can_do(family: str) -> None:
    answer = examine(family)
    assert not answer.is_wrong, answer.why
    assert row_of(answer) in LINES, "run `make families`"


def test_every_text_family_has_a_row() -> None:
    if not any(f"transformers {transformers.__version__}." in line for line in LINES):
        pytest.skip("docs/results/families.md was written with another version of transformers")
    rows = [line.split("|")[1].strip() for line in LINES if line.startswith("|")][2:]
    assert rows == text_families()[0]


def test_nothing_on_the_page_is_measured_wrong() -> None:
    assert not [line for line in LINES if "WRONG" in line]
