"""Examples are valid from birth."""

import pytest

from headscope.data.counts import ExampleCounts
from headscope.data.example import Example


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": "a", "words": ("a",)},
        {"words": ("a",), "text_pair": "b"},
        {"words": ("a", "b"), "spaces": (True,)},
    ],
)
def test_an_example_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Example 'x'"):
        Example("x", **fields)  # type: ignore[arg-type]


def test_accounts_add_and_keep_the_first_ids_only() -> None:
    one, other = ExampleCounts(used=1, tokens=5), ExampleCounts(truncated=2)
    for number in range(30):
        other.skip("too long", f"s{number}")
    total = one + other + other
    assert (total.used, total.truncated, total.tokens, total.seen) == (1, 4, 5, 61)
    assert total.skipped_ids["too long"][:2] == ["s0", "s1"]
    assert len(total.skipped_ids["too long"]) == 20
