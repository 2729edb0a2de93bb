"""Documents in windows: everything is kept that fits, and what is cut is counted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headscope as hs
from headscope.contracts import CorpusRole
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Encoding
from headscope.data.example import Example, Mention
from headscope.engine.windows import PARTED, SPLIT, UNREAD, cut_documents, encode_windows
from headscope.models.load import load_model
from tests.making import MadeSource


def document(n_words: int, starts: list[int], mentions: list[Mention]) -> Example:
    words = tuple(f"w{i}" for i in range(n_words))
    return Example("d", words=words, mentions=tuple(mentions), sentences=tuple(starts))


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    pieces=st.integers(1, 3),
    budget=st.integers(3, 40),
)
def test_windows_hold_all_words_in_order_and_never_too_many_tokens(
    sizes: list[int], pieces: int, budget: int
) -> None:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    whole = document(sum(sizes), starts, [Mention(0, 1, "a", 0)])
    source = MadeSource(pieces=lambda word, place: pieces)
    counts = ExampleCounts()
    windows = cut_documents([whole], source, budget + 2, counts)
    assert [word for window in windows for word in window.words or ()] == list(whole.words or ())
    for window in windows:
        n_words = len(window.words or ())
        assert n_words * pieces <= budget or n_words == 1
        assert window.own_document == whole.own_document
    assert len({window.id for window in windows}) == len(windows)
    n_long = sum(size * pieces > budget and size > 1 for size in sizes)
    assert counts.notes.get(SPLIT, 0) == n_long
    for one, other in pairwise(windows):  # no window could have taken its neighbour's sentence
        first = min([s for s in other.sentences or () if s > 0], default=len(other.words or ()))
        if other.sentences and other.sentences[0] == 0 and not n_long:
            assert (len(one.words or ()) + first) * pieces > budget


def test_mentions_move_with_their_window_and_the_parted_are_counted() -> None:
    mentions = [
        Mention(0, 2, "a", 1),
        Mention(3, 4, "a", 3),
        Mention(6, 7, "a", 6),
        Mention(8, 9, "b", 8),
        Mention(9, 10, "b", 9),
    ]
    whole = document(10, [0, 5], mentions)
    source, counts = MadeSource(pieces=lambda word, place: 1), ExampleCounts()
    first, second = cut_documents([whole], source, 7, counts)
    assert first.words == ("w0", "w1", "w2", "w3", "w4")
    assert [m.head for m in first.mentions or ()] == [1, 3]
    assert [m.head for m in second.mentions or ()] == [1, 3, 4]
    assert counts.notes == {PARTED: 1}  # word 6 has its antecedents in the first window


def test_a_document_without_mentions_is_skipped_and_named() -> None:
    counts = ExampleCounts()
    assert cut_documents([document(3, [0], [])], MadeSource(), 100, counts) == []
    assert counts.skipped_ids == {"no mentions": ["d"]}


def test_a_truncated_document_is_its_first_tokens_alone() -> None:
    """As in the paper: cut within a sentence where it must be."""
    mentions = [Mention(0, 1, "a", 0), Mention(3, 4, "a", 3), Mention(7, 8, "a", 7)]
    whole = document(9, [0, 4], mentions)
    source = MadeSource(pieces=lambda word, place: 1)
    counts = ExampleCounts()
    (window,) = cut_documents([whole], source, 6 + 2, counts, is_truncated=True)
    assert window.words == (whole.words or ())[:6]
    assert [m.start for m in window.mentions or ()] == [0, 3]
    assert counts.notes == {UNREAD: 1}
    assert window.own_document == whole.own_document


LONG = " ".join(f"Boat {number} sails home, far over the wide sea." for number in range(60))


def read_windows(*examples: Example, is_truncated: bool = False) -> list[Encoding]:
    """What the demo's tokenizer makes of texts, in windows of 40 tokens."""
    source = load_model("demo")
    counts = ExampleCounts()
    return encode_windows(examples, source, CorpusRole.TEXT, 40, counts, is_truncated)


def test_a_long_text_is_read_whole_in_windows_of_its_document() -> None:
    short = Example("b", text="The sea is wide.", document="d")
    *windows, last = read_windows(Example("a", text=LONG, weight=0.5), short)
    assert "".join(e.example.text or "" for e in windows).replace(" ", "") == LONG.replace(" ", "")
    assert all(len(e) <= 40 and not e.is_truncated for e in windows)
    assert min(map(len, windows[:-1])) > 30  # as much as fits
    assert {e.example.own_document for e in windows} == {"a"}
    assert sum(e.example.weight for e in windows) == pytest.approx(0.5)
    assert len({e.example.key for e in windows}) == len(windows)
    assert last.example == short


def test_a_long_pair_becomes_pairs_of_neighbouring_pieces() -> None:
    windows = read_windows(Example("a", text="A short paragraph.", text_pair=LONG))
    pieces = [p for e in windows for p in (e.example.text, e.example.text_pair) if p]
    assert "".join(pieces).replace(" ", "") == f"A short paragraph. {LONG}".replace(" ", "")
    assert all(e.example.text_pair is not None for e in windows[:-1])
    assert not any(e.is_truncated for e in windows)


def test_the_papers_segments_are_cut_off_and_the_unread_share_is_known() -> None:
    [encoding] = read_windows(Example("a", text=LONG), is_truncated=True)
    read = LONG[: len(LONG) - encoding.n_unread]
    assert encoding.is_truncated
    assert encoding.n_characters == len(LONG)
    assert read.endswith(encoding.surfaces[-2])
    assert 0 < len(read) < 0.1 * len(LONG)


def test_examples_of_long_texts_are_windows_that_are_found_again() -> None:
    texts = [f"{LONG} {name}" for name in ("One.", "Two.", "Three.")]
    run = hs.analyze("demo", text=texts, only="position", max_tokens=40, progress=False)
    shown = [example.view for example in run.examples]
    assert len(shown) >= 6  # best and worst of several heads
    assert all(len(view.units) <= 40 for view in shown)
    firsts = [view.units[1] for view in shown]
    assert len(set(firsts)) > 1  # not the first window of each text alone
