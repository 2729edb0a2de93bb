"""Where marked pieces stand in the text, of a tokenizer that does not say it."""

import pytest

from headscope.data.example import Example
from headscope.models.encode import Encoder, piece_offsets
from tests.models.slow import MarkedPieces

INPUTS = frozenset({"input_ids", "attention_mask"})
ROOM = 100


@pytest.mark.parametrize(
    ("text", "pieces", "stand"),
    [
        ("the boat", "▁the ▁boat", "the|boat"),
        ("two  boats.", "▁two ▁boat s .", "two|boat|s|."),
        ("“one”, two", "▁ <unk> one <unk> , ▁two", "|“|one|”|,|two"),  # unknown signs
        ("½ boat", "▁ 1⁄2 ▁boat", "|½|boat"),  # normalized
        ("the ﬁne boat", "▁the ▁fi ne ▁boat", "the|ﬁ|ne|boat"),  # one letter for two
        ("boat(s) sail", "▁boat ▁( s ) ▁sail", "boat|(|s|)|sail"),  # a space put in
        ("( the boat", "▁( the ▁boat", "(|the|boat"),  # a space taken away
        ("世 the 界", "▁ <unk> ▁the ▁ <unk>", "|世|the||界"),
        ("the boat sails", "▁the ▁boat", "the|boat"),  # cut
        ("a", "<unk>", "a"),
        ("", "</s>", ""),
    ],
)
def test_pieces_stand_where_their_letters_are(text: str, pieces: str, stand: str) -> None:
    offsets = piece_offsets(text, pieces.split())
    assert "|".join(text[start:end] for start, end in offsets.tolist()) == stand


def test_words_have_the_pieces_of_their_letters() -> None:
    encoder = Encoder(MarkedPieces(), INPUTS)
    example = Example("a", words=("do", "n't", "“", "sail", "!"), spaces=(0, 0, 1, 0, 0))
    (encoding,) = encoder.encode([example], ROOM)
    # ▁do n't ▁ <unk> sail <unk> </s>
    assert encoding.word_ids.tolist() == [0, 1, 2, 2, 3, 4, -1]
    assert encoding.kinds.tolist() == [0] * 6 + [2]
    assert encoding.tokenization["words"] == 5
    assert not encoding.is_truncated


@pytest.mark.parametrize("is_target", [False, True])
def test_a_side_that_is_cut_is_known_to_be(is_target: bool) -> None:
    encoder = Encoder(MarkedPieces(), INPUTS)
    for room, is_cut in ((6, False), (5, True)):
        (encoding,) = encoder.encode_side(
            [Example("a", text="")], ["the boat sails."], room, is_target
        )
        assert encoding.is_truncated == is_cut
        assert encoding.word_ids.tolist() == [*[0, 1, 2, 2, 2][: room - 1], -1]


def test_a_pair_is_encoded_too() -> None:
    encoder = Encoder(MarkedPieces(), INPUTS)
    (encoding,) = encoder.encode([Example("a", text="the boat", text_pair="one")], ROOM)
    assert encoding.surfaces == ("the", "boat", "one", "</s>")
