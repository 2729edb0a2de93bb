"""Examples in tokens, by any fast tokenizer, and in batches of equal token count."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import Example
from headscope.errors import ModelError

if TYPE_CHECKING:  # not at run time: the engine batches for any source, and this import is slow
    from transformers import PreTrainedTokenizerBase

__all__ = ["Encoder", "equal_length_batches"]


@dataclass(frozen=True)
class Encoder:
    """A tokenizer, and the arguments its model takes.

    Text is encoded just as the tokenizer does it. Words are encoded one by one and keep their
    index; where the tokenizer sees spaces (byte-level BPE), each word keeps the space before it.
    """

    tokenizer: "PreTrainedTokenizerBase"
    input_names: frozenset[str]
    _surfaces: dict[int, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise ModelError(
                f"{type(self.tokenizer).__name__} is a slow tokenizer. Expected a fast one, which "
                "knows which token belongs to which word; save the model with a tokenizer.json "
                "(`AutoTokenizer.from_pretrained(...).save_pretrained(folder)` writes it where a "
                "fast version exists)."
            )

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The examples in order, each truncated, the longer text first, to `max_tokens`."""
        encodings: dict[int, Encoding] = {}
        for is_words in (False, True):
            alike = {i: e for i, e in enumerate(examples) if (e.words is not None) == is_words}
            if not alike:
                continue
            encoded = self.tokenizer(
                [self._as_input(example) for example in alike.values()],
                is_split_into_words=is_words,
                truncation="longest_first",
                max_length=max_tokens,
                return_special_tokens_mask=True,
                verbose=False,
            )
            for row, (i, example) in enumerate(alike.items()):
                encodings[i] = self._read(example, encoded, row)
        return [encodings[i] for i in range(len(examples))]

    def encode_side(
        self, examples: Sequence[Example], texts: Sequence[str], max_tokens: int, is_target: bool
    ) -> list[Encoding]:
        """One text of each example, as a source or as a target; words are what spaces part."""
        encoded = self.tokenizer(
            **{"text_target" if is_target else "text": list(texts)},
            truncation=True,
            max_length=max_tokens,
            return_special_tokens_mask=True,
            verbose=False,
        )
        return [
            replace(
                self._read(example, encoded, row),
                word_ids=_find_words(text, encoded.encodings[row].offsets),
            )
            for row, (example, text) in enumerate(zip(examples, texts, strict=True))
        ]

    def shift(self, written: Encoding, opening: int) -> Encoding:
        """What a decoder reads to write this: the opening token, then all but the closing one."""
        is_closed = len(written) > 0 and written.kinds[-1] != TokenKind.TEXT
        kept = len(written) - int(is_closed)

        def after(first: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.array([first, *values[:kept]], dtype=np.int64)

        return replace(
            written,
            inputs={"input_ids": after(opening, written.inputs["input_ids"])},
            surfaces=(self._surface(opening), *written.surfaces[:kept]),
            kinds=after(TokenKind.CLS, written.kinds),
            word_ids=after(-1, written.word_ids),
        )

    def _as_input(self, example: Example) -> str | tuple[str, str] | list[str]:
        if example.words is None:
            text = example.text or ""
            return text if example.text_pair is None else (text, example.text_pair)
        if not self._spaces_words:
            return list(example.words)
        spaces = example.spaces or [index > 0 for index in range(len(example.words))]
        return [" " * space + word for space, word in zip(spaces, example.words, strict=True)]

    def _read(self, example: Example, encoded: Any, i: int) -> Encoding:
        tokens = encoded.encodings[i]
        words = [-1 if w is None or example.words is None else w for w in tokens.word_ids]
        return Encoding(
            example=example,
            inputs={
                name: np.array(values[i], dtype=np.int64)
                for name, values in encoded.items()
                if name in self.input_names
            },
            surfaces=tuple(map(self._surface, tokens.ids)),
            kinds=self._kinds(np.array(tokens.ids), np.array(tokens.special_tokens_mask)),
            word_ids=np.array(words, dtype=np.int64),
            is_truncated=bool(tokens.overflowing),
        )

    def _kinds(self, ids: NDArray[np.int64], added: NDArray[np.int64]) -> NDArray[np.int64]:
        """Special tokens before any text open the input, as CLS and BOS always do; others close."""
        opening, closing = self._sides
        is_special = (added == 1) | np.isin(ids, self._special_ids)
        is_begun = np.logical_or.accumulate(~is_special | np.isin(ids, closing))
        is_opening = ~is_begun | np.isin(ids, opening)
        kinds = np.where(is_opening, TokenKind.CLS, TokenKind.SEP)
        return np.where(is_special, kinds, TokenKind.TEXT).astype(np.int64)

    def _surface(self, token_id: int) -> str:
        if token_id not in self._surfaces:
            surface = str(self.tokenizer.decode([token_id])).strip()
            self._surfaces[token_id] = surface.removeprefix(self._piece_mark)
        return self._surfaces[token_id]

    @cached_property
    def _spaces_words(self) -> bool:
        """Whether words must carry their spaces to be cut as they are in running text."""
        in_text = self.tokenizer("one two", add_special_tokens=False)["input_ids"]

        def cut(words: list[str]) -> Any:
            return self.tokenizer(words, is_split_into_words=True, add_special_tokens=False)

        plain, spaced = cut(["one", "two"])["input_ids"], cut(["one", " two"])["input_ids"]
        return bool(plain != in_text and spaced == in_text)

    @cached_property
    def _special_ids(self) -> list[int]:
        """Ids that are special wherever they stand; an unknown word or a mask stands for text."""
        tokenizer = self.tokenizer
        text_like = {tokenizer.unk_token_id, tokenizer.mask_token_id}
        # GPT-2's one special token is by name its unknown word too, though it knows every byte.
        text_like -= {tokenizer.bos_token_id, tokenizer.eos_token_id}
        return [i for i in tokenizer.all_special_ids if i not in text_like]

    @cached_property
    def _sides(self) -> tuple[list[int], list[int]]:
        """Ids that always open and ids that always close; one in both roles opens the start."""
        tokenizer = self.tokenizer
        opening = {tokenizer.cls_token_id, tokenizer.bos_token_id}
        closing = {tokenizer.sep_token_id, tokenizer.eos_token_id}
        return list(opening - closing - {None}), list(closing - opening - {None})

    @cached_property
    def _piece_mark(self) -> str:
        """What stands before the later pieces of a word ("##"), where the tokenizer has it."""
        model = self.tokenizer.backend_tokenizer.model
        return getattr(model, "continuing_subword_prefix", None) or ""


def equal_length_batches(
    encodings: Sequence[Encoding], batch_tokens: int
) -> Iterator[list[Encoding]]:
    """Encodings grouped by length, longest first; at most `batch_tokens` tokens (or one) each.

    There is no padding, so results do not depend on the batch.
    """
    by_length = sorted(encodings, key=_lengths, reverse=True)
    for lengths, group in groupby(by_length, key=_lengths):
        members, size = list(group), max(1, batch_tokens // max(lengths))
        yield from (members[start : start + size] for start in range(0, len(members), size))


def _lengths(encoding: Encoding) -> tuple[int, int]:
    return len(encoding), len(encoding.target or ())


def _find_words(text: str, offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """The word that each token begins in, by its place in the text; -1 where there is none.

    >>> _find_words("a bird", [(0, 1), (1, 4), (4, 6), (0, 0)])
    array([ 0,  1,  1, -1])
    """
    owners = np.full(len(text) + 1, -1)
    for number, word in enumerate(re.finditer(r"\S+", text)):
        owners[word.start() : word.end()] = number
    found = (owners[start:end] for start, end in offsets)
    return np.array([next((o for o in own if o >= 0), -1) for own in found], dtype=np.int64)
