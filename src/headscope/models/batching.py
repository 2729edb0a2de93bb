"""Batches of equal token count: no padding, so results do not depend on the batch."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from headscope.data.encoding import Encoding

__all__ = ["equal_length_batches"]


def equal_length_batches(
    encodings: Sequence[Encoding], batch_tokens: int
) -> Iterator[list[Encoding]]:
    """Encodings grouped by length, longest first; at most `batch_tokens` tokens (or one) each."""
    by_length = sorted(encodings, key=len, reverse=True)
    for length, group in groupby(by_length, key=len):
        members, size = list(group), max(1, batch_tokens // length)
        yield from (members[start : start + size] for start in range(0, len(members), size))
