"""Words in running text: which token belongs to which word, against an obvious loop."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headscope.data.example import Example
from headscope.data.words import Span, align, lay_out, word_spans


def slow_word(token: Span, spans: list[Span]) -> tuple[int, int]:
    """The word that has the most characters of a token, and how many words have any."""
    counts = [len(set(range(*token)) & set(range(*span))) for span in spans]
    n_words = sum(count > 0 for count in counts)
    if n_words:
        return counts.index(max(counts)), n_words
    later = [i for i, (start, end) in enumerate(spans) if end > token[0] and end > start]
    full = [i for i, (start, end) in enumerate(spans) if end > start]
    return (later or full[-1:] or [-1])[0], 0


@given(
    words=st.lists(st.text("ab ", max_size=4), max_size=6),
    spaces=st.lists(st.booleans(), min_size=6, max_size=6),
    cuts=st.lists(st.integers(0, 30), max_size=12),
)
def test_tokens_belong_to_the_word_of_most_of_their_characters(
    words: list[str], spaces: list[bool], cuts: list[int]
) -> None:
    example = Example("a", words=tuple(words), spaces=tuple(spaces[: len(words)]))
    text, spans = lay_out(example)
    assert [text[start:end] for start, end in spans] == words
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    tokens = list(pairwise(edges))
    word_ids, n_shared = align(np.array(tokens, np.int64).reshape(-1, 2), spans)
    expected = [slow_word(token, spans) for token in tokens]
    assert word_ids.tolist() == [word for word, _ in expected]
    assert n_shared == sum(n > 1 for _, n in expected)


def test_words_of_text_are_parted_from_punctuation_and_ideographs_from_each_other() -> None:
    text = 'He said "don\'t go," हिन्दी 世界, x-y.'
    words = [text[start:end] for start, end in word_spans(text)]
    assert words == [
        *("He", "said", '"', "don't", "go", ",", '"', "हिन्दी", "世", "界", ",", "x-y", "."),
    ]
