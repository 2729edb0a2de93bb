"""Words by real tokenizers: the demo's WordPiece, and SmolLM2's byte-level BPE if it is there."""

from itertools import pairwise
from unicodedata import category

import pytest

from headscope.contracts import CorpusRole
from headscope.corpora.opening import as_corpora
from headscope.data.example import Example
from headscope.data.words import lay_out
from headscope.models.encode import Encoder
from headscope.models.load import load_model
from tests.shared import shared
from tests.smollm2 import smollm2_tokenizer

ROOM = 10**6


def touch(example: Example) -> bool:
    """Whether two words stand together with neither space nor punctuation between them."""
    text, spans = lay_out(example)
    return any(
        end == start > 0 and not any(map(is_punctuation, text[start - 1 : start + 1]))
        for (_, end), (start, _) in pairwise(spans)
    )


def is_punctuation(character: str) -> bool:
    """As BERT has it: what Unicode calls so, and all signs of ASCII."""
    is_sign = character.isascii() and not character.isalnum()
    return is_sign or category(character).startswith("P")


def word_by_word(encoder: Encoder, example: Example) -> tuple[list[int], list[int]]:
    """Tokens and words where every word is encoded alone."""
    encoded = encoder.tokenizer([list(example.words or ())], is_split_into_words=True)
    words = [-1 if word is None else word for word in encoded.word_ids(0)]
    return encoded["input_ids"][0], words


def compare(examples: list[Example]) -> list[str]:
    """The ids of examples whose tokens or words are not those of words encoded one by one."""
    encoder = load_model("demo").encoder
    different = []
    for example, encoding in zip(examples, encoder.encode(examples, ROOM), strict=True):
        tokens, words = word_by_word(encoder, example)
        is_same = (encoding.inputs["input_ids"].tolist(), encoding.word_ids.tolist()) == (
            tokens,
            words,
        )
        if not is_same:
            different.append(example.id)
    return different


def test_wordpiece_is_as_word_by_word_where_spaces_or_punctuation_part_words() -> None:
    examples = list(as_corpora("starter", CorpusRole.TREEBANK)[0])
    parted = [example for example in examples if not touch(example)]
    assert len(parted) > 0.8 * len(examples)
    assert compare(parted) == []


def test_ewt_differs_only_in_sentences_with_words_that_touch() -> None:
    path = shared("data/treebanks/en_ewt-ud-dev.conllu")
    examples = list(as_corpora(path, CorpusRole.TREEBANK)[0])
    touching = {example.id for example in examples if touch(example)}
    different = compare(examples)
    assert set(different) <= touching
    assert 100 < len(different) < 200  # "do n't", "can not", "it s"


def test_words_of_a_llama_are_the_tokens_of_the_running_text() -> None:
    encoder = Encoder(smollm2_tokenizer(), frozenset({"input_ids"}))
    words = ("They", "do", "n't", "know", "(", "what", ")", ".")
    spaces = (False, True, False, True, True, False, False, False)
    (encoding,) = encoder.encode([Example("a", words=words, spaces=spaces)], ROOM)
    assert encoding.surfaces == ("They", "don", "'t", "know", "(", "what", ").")
    assert encoding.word_ids.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert encoding.n_shared == 2  # "don" and ")."


@pytest.mark.parametrize("limit", [7, 20])
def test_a_llama_reads_the_starter_as_its_text(limit: int) -> None:
    encoder = Encoder(smollm2_tokenizer(), frozenset({"input_ids"}))
    examples = list(as_corpora("starter", CorpusRole.TREEBANK)[0])[:40]
    texts = [Example(example.id, text=lay_out(example)[0]) for example in examples]
    for one, other in zip(
        encoder.encode(examples, limit), encoder.encode(texts, limit), strict=True
    ):
        assert one.inputs["input_ids"].tolist() == other.inputs["input_ids"].tolist()
        assert one.is_truncated == other.is_truncated
