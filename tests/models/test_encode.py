"""Texts, pairs and words in tokens: as the tokenizer has them, with kinds, surfaces and words."""

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BatchEncoding, ByT5Tokenizer

from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import Example
from headscope.errors import ModelError
from headscope.models.encode import Encoder
from tests.models.tiny import SENTENCES, TOKENIZERS, build_tokenizer

INPUTS = frozenset({"input_ids", "token_type_ids", "attention_mask"})
ROOM = 10_000
BYTE_LEVEL = ["gpt2", "roberta", "qwen"]

each_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)
each_byte_level = pytest.mark.parametrize("name", BYTE_LEVEL)


@cache
def encoder_of(name: str) -> Encoder:
    return Encoder(build_tokenizer(name), INPUTS)


def encode(name: str, max_tokens: int = ROOM, **fields: object) -> Encoding:
    return encoder_of(name).encode([Example("example", **fields)], max_tokens)[0]


def ids_of(encoding: Encoding) -> list[int]:
    return encoding.inputs["input_ids"].tolist()


def tokens_of(name: str, encoding: Encoding) -> list[str]:
    return build_tokenizer(name).convert_ids_to_tokens(ids_of(encoding))


def pattern(encoding: Encoding) -> str:
    """The kinds in short: C, S, and one t for every stretch of text."""
    letters = "".join("tCS"[kind] for kind in encoding.kinds)
    while "tt" in letters:
        letters = letters.replace("tt", "t")
    return letters


def cut_text(name: str, text: str) -> list[int]:
    """A text in tokens, straight from the tokenizer, without special tokens."""
    return build_tokenizer(name)(text, add_special_tokens=False, verbose=False)["input_ids"]


# --- as the tokenizer does it -------------------------------------------------------------------


@each_tokenizer
@pytest.mark.parametrize("text", [*SENTENCES, "", "Ünïcode 世界 🙂 \t\n two  spaces ", "a [SEP] b"])
def test_text_is_encoded_as_the_tokenizer_does(name: str, text: str) -> None:
    expected = build_tokenizer(name)(text, verbose=False)
    encoding = encode(name, text=text)
    assert {key: values.tolist() for key, values in encoding.inputs.items()} == dict(expected)
    assert not encoding.is_truncated


@each_tokenizer
def test_pair_is_encoded_as_the_tokenizer_does(name: str) -> None:
    expected = build_tokenizer(name)(SENTENCES[0], SENTENCES[1], verbose=False)
    encoding = encode(name, text=SENTENCES[0], text_pair=SENTENCES[1])
    assert {key: values.tolist() for key, values in encoding.inputs.items()} == dict(expected)


def test_only_arguments_that_the_model_takes_are_kept() -> None:
    encoder = Encoder(build_tokenizer("wordpiece"), frozenset({"input_ids", "self"}))
    assert set(encoder.encode([Example("a", text="one")], ROOM)[0].inputs) == {"input_ids"}


@each_tokenizer
@pytest.mark.parametrize(
    "fields",
    [{"text": ""}, {"text": "", "text_pair": ""}, {"words": ()}, {"words": ("",)}],
    ids=str,
)
def test_all_arrays_have_one_entry_per_token_even_of_nothing(
    name: str, fields: dict[str, object]
) -> None:
    encoding = encode(name, **fields)
    n_tokens = len(encoding.surfaces)
    assert encoding.kinds.shape == encoding.word_ids.shape == (n_tokens,)
    assert all(values.shape == (n_tokens,) for values in encoding.inputs.values())
    assert "t" not in pattern(encoding)


@each_tokenizer
def test_mixed_examples_keep_their_order(name: str) -> None:
    examples = [
        Example("0", text=SENTENCES[0]),
        Example("1", words=("one", "boat")),
        Example("2", text="two boats", text_pair="three"),
        Example("3", words=("don't",)),
        Example("4", text="one", text_pair="two"),
        Example("5", text=""),
    ]
    together = encoder_of(name).encode(examples, ROOM)
    assert [encoding.example for encoding in together] == examples
    alone = [encoder_of(name).encode([example], ROOM)[0] for example in examples]
    assert [ids_of(encoding) for encoding in together] == [ids_of(one) for one in alone]


def test_no_examples_give_no_encodings() -> None:
    assert encoder_of("wordpiece").encode([], ROOM) == []


def test_slow_tokenizer_is_refused() -> None:
    with pytest.raises(ModelError, match="ByT5Tokenizer is a slow tokenizer"):
        Encoder(ByT5Tokenizer(), INPUTS)


# --- words --------------------------------------------------------------------------------------


@each_tokenizer
def test_words_of_running_text_are_cut_as_in_the_text(name: str) -> None:
    for text in SENTENCES:
        encoding = encode(name, words=tuple(text.split()))
        assert ids_of(encoding) == ids_of(encode(name, text=text))


@each_byte_level
def test_only_the_first_word_has_no_space_before_it(name: str) -> None:
    encoding = encode(name, words=("boat", "boat", "(boat)"))
    tokens, words = tokens_of(name, encoding), encoding.word_ids.tolist()
    firsts = [tokens[words.index(word)] for word in range(3)]
    assert [token.startswith("Ġ") for token in firsts] == [False, True, True]
    assert "".join(encoding.surfaces[i] for i in range(len(words)) if words[i] == 0) == "boat"


@each_tokenizer
def test_words_are_encoded_as_the_running_text_that_they_make(name: str) -> None:
    words = ("They", "do", "n't", "know", "(", "what", ")", ".")
    spaces = (False, True, False, True, True, False, False, False)
    encoding = encode(name, words=words, spaces=spaces)
    assert ids_of(encoding) == ids_of(encode(name, text="They don't know (what)."))
    for place, word in enumerate(words):
        pieces = [
            s for s, w in zip(encoding.surfaces, encoding.word_ids, strict=True) if w == place
        ]
        assert "".join(pieces) in (word.lower(), word, "don", "'t"), place


@each_tokenizer
def test_words_without_a_space_get_no_mark_of_one(name: str) -> None:
    """Encoded one by one, SentencePiece and its kin put a mark before "n't", ")" and "."."""
    spaces = (True, False, False, False)
    encoding = encode(name, words=("(", "do", "n't", ")"), spaces=spaces)
    tokens = tokens_of(name, encoding)
    assert sum(token[0] in "▁Ġ" for token in tokens) <= 2  # before "(", and llama's at the start
    after = [t for t, w in zip(tokens, encoding.word_ids, strict=True) if w > 0]
    assert not any(token[0] in "▁Ġ" for token in after)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_multiword_token_is_encoded_as_it_stands_in_the_text(name: str) -> None:
    fields = {"words": ("one", "of", "the", "boat"), "spaces": (False, True, False, True)}
    encoding = encode(name, **fields, surfaces=("one", "o", "t", "boat"))
    assert ids_of(encoding) == ids_of(encode(name, text="one ot boat"))
    assert set(encoding.word_ids.tolist()) - {-1} == {0, 1, 2, 3}


def test_a_piece_that_covers_two_words_is_counted_and_has_the_larger_part() -> None:
    encoding = encode("wordpiece", words=("bo", "at", "s"), spaces=(False, False, False))
    assert tokens_of("wordpiece", encoding) == ["[CLS]", "boat", "##s", "[SEP]"]
    assert encoding.n_shared == 1
    assert encoding.word_ids.tolist() == [-1, 0, 2, -1]
    assert encode("wordpiece", words=("boat", "s")).n_shared == 0


def test_how_words_became_tokens_is_counted() -> None:
    expected = {"words": 4, "split words": 1, "pieces": 5}
    expected |= {"unknown pieces": 1, "single-character pieces": 2}
    words = ("One", "boats", "世", "!")
    assert encode("wordpiece", words=words).tokenization == expected
    assert encode("wordpiece", text="One boats 世!").tokenization == expected
    pair = encode("wordpiece", text="One boats", text_pair="世!")
    assert pair.tokenization == expected
    assert encode("wordpiece", 3, text="One boats 世!").tokenization["words"] == 1


@each_byte_level
def test_first_word_may_have_a_space_before_it(name: str) -> None:
    encoding = encode(name, words=("boat",), spaces=(True,))
    assert "Ġboat" in tokens_of(name, encoding)


@each_tokenizer
def test_every_word_with_tokens_is_covered_in_order(name: str) -> None:
    words = tuple(SENTENCES[1].split())
    encoding = encode(name, words=words)
    is_text = encoding.kinds == TokenKind.TEXT
    found = encoding.word_ids[is_text].tolist()
    assert set(found) == set(range(len(words)))
    assert all(a <= b for a, b in pairwise(found))
    assert (encoding.word_ids[~is_text] == -1).all()


@each_tokenizer
def test_texts_have_no_words(name: str) -> None:
    assert (encode(name, text="one two", text_pair="three").word_ids == -1).all()


@pytest.mark.parametrize("name", ["wordpiece", "xlm-roberta", "t5"])
def test_words_without_tokens_are_absent_and_shift_no_other(name: str) -> None:
    words = ("\u200b", "one", "", "two", " ", "\u200b\u200b", "boat", "\ufeff")
    found = encode(name, words=words).word_ids
    assert set(found.tolist()) - {-1} == {1, 3, 6}


TRICKY = [
    "",
    " ",
    "\n",
    "\x00",
    "\x07",
    "\u200b",
    "\ufeff",
    "\u00a0",
    "🙂",
    "👩‍👩‍👧",
    "世界",
    "日本語",
]
TRICKY += ["é", "e\u0301", "ﬁ", "ÅNGSTRÖM", "don't", "...", "▁", "Ġ", "##ing", "一つ two", " one "]
WORDS = st.lists(st.one_of(st.sampled_from(TRICKY), st.text(max_size=6)), max_size=7)


@each_tokenizer
@given(words=WORDS, spaces=st.lists(st.booleans(), min_size=7, max_size=7))
def test_any_words_are_covered_in_order(name: str, words: list[str], spaces: list[bool]) -> None:
    given_spaces = tuple(spaces[: len(words)])
    encoding = encode(name, words=tuple(words), spaces=given_spaces)
    parts = zip(given_spaces, words, strict=True)
    text = "".join(" " * space + word for space, word in parts)
    assert ids_of(encoding) == ids_of(encode(name, text=text))
    is_text = encoding.kinds == TokenKind.TEXT
    found = encoding.word_ids[is_text]
    assert (found < len(words)).all()
    assert (found >= 0).all() or not any(words)
    assert all(a <= b for a, b in pairwise(found.tolist()))


# --- slow tokenizers ----------------------------------------------------------------------------


class ByT5WithOffsets(ByT5Tokenizer):  # type: ignore[misc]
    """A slow tokenizer that says where its tokens stand: every byte in its character."""

    def __call__(self, texts: Any, **options: Any) -> BatchEncoding:
        has_offsets = options.pop("return_offsets_mapping", False)
        encoded = super().__call__(texts, **options)
        if has_offsets:
            batch = [texts] if isinstance(texts, str) else texts
            encoded["offset_mapping"] = [
                self._offsets(text, len(ids))
                for text, ids in zip(batch, encoded["input_ids"], strict=True)
            ]
        return encoded

    def _offsets(self, text: str, n_tokens: int) -> list[tuple[int, int]]:
        places = [(i, i + 1) for i, letter in enumerate(text) for _ in letter.encode()]
        return [*places[: n_tokens - 1], (0, 0)]


def test_a_slow_tokenizer_that_gives_offsets_is_taken() -> None:
    encoder = Encoder(ByT5WithOffsets(), INPUTS)
    whole = Example("a", words=("é", "n't"), spaces=(False, False))
    cut, text = encoder.encode([whole, Example("b", text="é on")], 4)
    assert cut.is_truncated
    assert encoder.encode([whole], 6)[0].word_ids.tolist() == [0, 0, 1, 1, 1, -1]
    assert not encoder.encode([whole], 6)[0].is_truncated
    assert cut.word_ids.tolist() == [0, 0, 1, -1]
    assert pattern(cut) == pattern(text) == "tS"


# --- kinds and surfaces -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "single", "pair", "nothing"),
    [
        ("wordpiece", "CtS", "CtStS", "CS"),
        ("gpt2", "t", "t", ""),
        ("roberta", "CtS", "CtSStS", "CS"),
        ("xlm-roberta", "CtS", "CtSStS", "CS"),
        ("t5", "tS", "tStS", "S"),
        ("llama", "Ct", "CtCt", "C"),
        ("qwen", "t", "t", ""),
    ],
)
def test_special_tokens_open_or_close(name: str, single: str, pair: str, nothing: str) -> None:
    assert pattern(encode(name, text="one boat")) == single
    assert pattern(encode(name, words=("one", "boat"))) == single
    assert pattern(encode(name, text="one boat", text_pair="two")) == pair
    assert pattern(encode(name, text="")) == nothing


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("wordpiece", "one [SEP] two", "CtStS"),
        ("wordpiece", "[SEP] two", "CStS"),
        ("wordpiece", "one [CLS] two", "CtCtS"),
        ("roberta", "one</s> two", "CtStS"),
        ("xlm-roberta", "one </s> two", "CtStS"),
        ("t5", "one </s> two", "tStS"),
        ("t5", "</s> two", "StS"),
        ("llama", "one</s> two", "CtSt"),
        ("gpt2", "one<|endoftext|>two", "tSt"),
        ("gpt2", "<|endoftext|>one", "Ct"),
        ("qwen", "one<|im_end|>two", "tSt"),
    ],
)
def test_special_tokens_typed_in_the_text_count(name: str, text: str, expected: str) -> None:
    assert pattern(encode(name, text=text)) == expected


@pytest.mark.parametrize(
    ("name", "text", "token"),
    [
        ("wordpiece", "one [MASK] two", "[MASK]"),
        ("wordpiece", "one 世 two", "[UNK]"),
        ("roberta", "one <mask> two", "<mask>"),
        ("xlm-roberta", "one <mask> two", "<mask>"),
        ("xlm-roberta", "one 世 two", "<unk>"),
        ("t5", "one 世 two", "<unk>"),
        ("llama", "one <unk> two", "<unk>"),
    ],
)
def test_masks_and_unknown_words_are_text(name: str, text: str, token: str) -> None:
    encoding = encode(name, text=text)
    place = tokens_of(name, encoding).index(token)
    assert encoding.kinds[place] == TokenKind.TEXT


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("gpt2", "Ġ."),
        ("roberta", "Ġ."),
        ("qwen", "Ġ."),
        ("xlm-roberta", "▁."),
        ("t5", "▁."),
        ("llama", "▁."),
        ("wordpiece", "."),
    ],
)
def test_full_stop_looks_the_same_with_and_without_a_space(name: str, token: str) -> None:
    encoding = encode(name, text="One boat . Two boats.")
    tokens = tokens_of(name, encoding)
    assert {token, "."} <= set(tokens)
    assert [s for s, t in zip(encoding.surfaces, tokens, strict=True) if "." in t] == [".", "."]


@each_tokenizer
def test_surfaces_bear_no_marks_of_the_tokenizer(name: str) -> None:
    encoding = encode(name, text="The lighthouse keeper, unlike the others, sailed away!")
    assert not {"Ġ", "▁", "#", " "} & set("".join(encoding.surfaces))
    text = "".join(encoding.surfaces[i] for i in range(len(encoding)) if not encoding.kinds[i])
    assert text.lower() == "thelighthousekeeper,unliketheothers,sailedaway!"


# --- truncation ---------------------------------------------------------------------------------


@each_tokenizer
def test_text_is_cut_at_its_end_and_only_when_too_long(name: str) -> None:
    whole = encode(name, text=SENTENCES[0])
    assert not encode(name, len(whole), text=SENTENCES[0]).is_truncated
    cut = encode(name, len(whole) - 1, text=SENTENCES[0])
    assert cut.is_truncated
    assert len(cut) == len(whole) - 1
    assert pattern(cut) == pattern(whole)
    n_text = (cut.kinds == TokenKind.TEXT).sum()
    text = [s for s, kind in zip(whole.surfaces, whole.kinds, strict=True) if not kind]
    assert [s for s, kind in zip(cut.surfaces, cut.kinds, strict=True) if not kind] == text[:n_text]


@each_tokenizer
def test_words_are_cut_and_said_to_be(name: str) -> None:
    words = tuple(SENTENCES[0].split())
    whole = encode(name, words=words)
    cut = encode(name, 9, words=words)
    assert cut.is_truncated
    assert len(cut) == 9
    assert not encode(name, len(whole), words=words).is_truncated


@each_tokenizer
@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (5, 2)])
@pytest.mark.parametrize("max_tokens", [11, 12, 17, 30])
def test_longer_text_of_a_pair_is_cut_first(
    name: str, first: int, second: int, max_tokens: int
) -> None:
    pair = {"text": SENTENCES[first], "text_pair": SENTENCES[second]}
    lengths = [len(cut_text(name, text)) for text in pair.values()]
    n_special = len(encode(name, **pair)) - sum(lengths)
    cut = encode(name, max_tokens, **pair)
    assert cut.is_truncated
    assert len(cut) == max_tokens
    kept = kept_of_pair(name, cut, **pair)
    room = max_tokens - n_special
    half = room // 2
    shorter = min(range(2), key=lambda i: lengths[i])
    if lengths[shorter] <= half:
        assert kept[shorter] == lengths[shorter]
    else:
        assert sorted(kept) == [half, room - half]


def kept_of_pair(name: str, cut: Encoding, text: str, text_pair: str) -> list[int]:
    """How many tokens of either text are left: the split at which both are openings of theirs."""
    left = cut.inputs["input_ids"][cut.kinds == TokenKind.TEXT].tolist()
    a, b = cut_text(name, text), cut_text(name, text_pair)
    fits = [n for n in range(len(left) + 1) if left == a[:n] + b[: len(left) - n]]
    assert len(fits) == 1
    return [fits[0], len(left) - fits[0]]


@each_tokenizer
def test_short_pair_is_left_whole(name: str) -> None:
    pair = {"text": "one boat", "text_pair": "two boats"}
    whole = encode(name, **pair)
    assert not encode(name, len(whole), **pair).is_truncated
    assert encode(name, len(whole) - 1, **pair).is_truncated
