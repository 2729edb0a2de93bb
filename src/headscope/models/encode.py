"""Examples in tokens, by any tokenizer that says where these stand, in batches of one length."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.words import Span, align, lay_out, word_spans
from headscope.errors import ModelError, shorten

if TYPE_CHECKING:  # not at run time: the engine batches for any source, and this import is slow
    from transformers import PreTrainedTokenizerBase

__all__ = ["Encoder", "equal_length_batches", "piece_offsets", "special_names"]

Input = str | tuple[str, str]  # a text, or two
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNDECODED = "\ufffd"
WORD = re.compile(r"\S+")
MARK = "\u2581"  # of SentencePiece: stands for the space before a word
MOST_PIECES, MOST_CHARACTERS = 20, 200  # in which the next piece that is in the text is looked for


@dataclass(frozen=True)
class Encoder:
    """A tokenizer, and the arguments its model takes.

    Text is encoded just as the tokenizer does it, and so is the running text of words: a word has
    the tokens that stand where it stands.
    """

    tokenizer: "PreTrainedTokenizerBase"
    input_names: frozenset[str]
    n_embeddings: int = 2**63 - 1  # of the model: it has no token from here on
    _surfaces: dict[int, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self._gives_offsets:
            return
        ids = self.tokenizer(["a b"], verbose=False)["input_ids"][0]
        pieces = self.tokenizer.convert_ids_to_tokens(ids)
        if sum(piece.startswith(MARK) for piece in pieces) != 2:
            raise ModelError(
                f"{type(self.tokenizer).__name__} is a slow tokenizer, which does not give the "
                f"positions of its tokens in the text, and its tokens are not the marked pieces of "
                f"SentencePiece. Expected either, or a fast one; save the model with a "
                "tokenizer.json (`AutoTokenizer.from_pretrained(...).save_pretrained(folder)` "
                "writes it where a fast version exists)."
            )

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        """The examples in order, each truncated, the longer text first, to `max_tokens`."""
        if not examples:
            return []
        if all(example.is_drawn for example in examples):
            return [self.encode_drawn(example) for example in examples]
        laid_out = [None if e.words is None else lay_out(e) for e in examples]
        inputs: list[Input] = []
        for example, laid in zip(examples, laid_out, strict=True):
            text = example.text or "" if laid is None else laid[0]
            has_pair = laid is None and example.text_pair is not None
            inputs.append((text, example.text_pair or "") if has_pair else text)
        encoded = self._tokenize(inputs, truncation="longest_first", max_length=max_tokens)
        return [
            self._read(example, encoded, row, given, laid[1] if laid else None)
            for row, (example, given, laid) in enumerate(
                zip(examples, inputs, laid_out, strict=True)
            )
        ]

    def encode_drawn(self, example: Example) -> Encoding:
        """Made-up words as tokens of the vocabulary, between what the tokenizer puts around text.

        They are never truncated: whether the model takes so many is asked before.
        """
        framed = self._tokenize(["a"])
        is_added = np.array(framed["special_tokens_mask"][0], dtype=bool)
        first = int(is_added.argmin())  # the first token of the text
        n_after = int(is_added[::-1].argmin())
        draws = np.array(example.words or (), np.float64)  # [word]
        drawn = self.plain_ids[(draws * len(self.plain_ids)).astype(np.int64)]

        def frame(values: Any, between: Ints) -> Ints:
            around = np.array(values, dtype=np.int64)
            return np.concatenate([around[:first], between, around[len(around) - n_after :]])

        row = framed["input_ids"][0]
        ids = frame(row, drawn)
        added = frame(is_added, np.zeros(len(drawn), np.int64)) == 1
        others = {n: framed[n][0] for n in framed if n in self.input_names and n != "input_ids"}
        inputs = {n: frame(v, np.full(len(drawn), v[first])) for n, v in others.items()}
        return Encoding(
            example=example,
            inputs={"input_ids": ids, **inputs},
            surfaces=tuple(map(self._surface, ids.tolist())),
            kinds=self._kinds(ids, added),
            word_ids=frame(np.full(len(row), -1), np.arange(len(drawn))),
        )

    @cached_property
    def plain_ids(self) -> Ints:
        """The tokens that made-up words stand for: all that the model has but special ones."""
        ids = np.unique(np.array(list(self.tokenizer.get_vocab().values()), np.int64))
        return ids[~np.isin(ids, self.tokenizer.all_special_ids) & (ids < self.n_embeddings)]

    def _tokenize(self, *inputs: Any, **options: Any) -> Any:
        try:
            return self.tokenizer(
                *inputs,
                return_special_tokens_mask=True,
                return_offsets_mapping=self._gives_offsets,
                verbose=False,
                **options,
            )
        except Exception as error:
            raise ModelError(
                f"The tokenizer ({type(self.tokenizer).__name__}) does not work "
                f"({type(error).__name__}: {shorten(str(error))}). Expected one that encodes "
                "text; save the tokenizer again in the model's folder."
            ) from error

    def digest(self) -> str:
        """The sha256 of all that a tokenizer does with text: other tokens give other numbers."""
        tokenizer: Any = self.tokenizer
        if tokenizer.is_fast:
            facts = json.loads(tokenizer.backend_tokenizer.to_str())
            del facts["truncation"], facts["padding"]  # set by every call
        else:
            facts = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
        facts["special tokens"] = tokenizer.special_tokens_map
        text = json.dumps(facts, sort_keys=True, default=str)
        return sha256(text.encode(errors="backslashreplace")).hexdigest()

    def encode_side(
        self, examples: Sequence[Example], texts: Sequence[str], max_tokens: int, is_target: bool
    ) -> list[Encoding]:
        """One text of each example, as a source or as a target; words are what spaces part."""
        given = {"text_target" if is_target else "text": list(texts)}
        encoded = self._tokenize(**given, truncation=True, max_length=max_tokens)
        return [
            self._read(
                example, encoded, row, text, [w.span() for w in WORD.finditer(text)], is_target
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

    def _read(
        self,
        example: Example,
        encoded: Any,
        row: int,
        given: Input,
        spans: list[Span] | None,
        is_target: bool = False,
    ) -> Encoding:
        ids = np.array(encoded["input_ids"][row], dtype=np.int64)
        added = np.array(encoded["special_tokens_mask"][row], dtype=np.int64) == 1
        offsets = self._find_offsets(encoded, row, given, ids, added)
        kinds = self._kinds(ids, added)
        surfaces = tuple(map(self._surface, ids.tolist()))
        words, n_shared = np.full(len(ids), -1), 0
        if spans is not None:
            words[~added], n_shared = align(offsets[~added], spans)
        units, n_read = words, 0
        if spans is None:
            units, n_read = self._find_units(given, encoded, row, offsets, added)
        if encoded.is_fast:
            is_truncated = bool(encoded.encodings[row].overflowing)
        else:
            texts, tokenizer = [given], self.tokenizer
            whole = tokenizer(text_target=texts) if is_target else tokenizer(texts, verbose=False)
            is_truncated = len(whole["input_ids"][0]) > len(ids)
        n_characters = sum(map(len, (given,) if isinstance(given, str) else given))
        return Encoding(
            example=example,
            inputs={
                name: np.array(values[row], dtype=np.int64)
                for name, values in encoded.items()
                if name in self.input_names
            },
            surfaces=surfaces,
            kinds=kinds,
            word_ids=words,
            is_truncated=is_truncated,
            n_shared=n_shared,
            n_characters=n_characters,
            n_unread=n_characters - n_read if is_truncated else 0,
            tokenization=self._count(units, ids, surfaces, kinds == TokenKind.TEXT),
        )

    def _find_offsets(
        self, encoded: Any, row: int, given: Input, ids: Ints, added: Bools
    ) -> Int[Ints, "token 2"]:
        if self._gives_offsets:
            return np.array(encoded["offset_mapping"][row], dtype=np.int64).reshape(-1, 2)
        text = given if isinstance(given, str) else " ".join(given)
        offsets = np.zeros((len(ids), 2), dtype=np.int64)
        pieces = self.tokenizer.convert_ids_to_tokens(ids[~added].tolist())
        offsets[~added] = piece_offsets(text, pieces)
        return offsets

    def _find_units(
        self, given: Input, encoded: Any, row: int, offsets: Ints, added: Bools
    ) -> tuple[Int[Ints, " token"], int]:
        """The word of each token of a text or a pair of texts, counted on from one to the other;
        and how many characters were read."""
        units, n_before, n_read = np.full(len(offsets), -1), 0, 0
        texts = (given,) if isinstance(given, str) else given
        if len(texts) > 1 and not encoded.is_fast:
            # a slow tokenizer does not say which token is of which text
            return units, int(offsets[:, 1].max(initial=0))
        of_text = np.array([s or 0 for s in encoded.sequence_ids(row)] if len(texts) > 1 else 0)
        for number, text in enumerate(texts):
            chosen = ~added & (of_text == number)
            end = int(offsets[chosen, 1].max(initial=0))  # the rest was cut
            n_read += end
            spans = list(word_spans(text[:end]))
            words, _ = align(offsets[chosen], spans)
            units[chosen] = np.where(words < 0, -1, words + n_before)
            n_before += len(spans)
        return units, n_read

    def _count(
        self, units: Ints, ids: Ints, surfaces: Sequence[str], is_text: Bools
    ) -> dict[str, int]:
        """How words became tokens: counts that add."""
        is_piece = (units >= 0) & is_text
        n_pieces = np.unique(units[is_piece], return_counts=True)[1]  # [word]
        is_single = np.array([len(surface) <= 1 for surface in surfaces], dtype=bool)
        # A byte of a character that has no token of its own cannot be decoded.
        is_byte = np.array([set(surface) == {UNDECODED} for surface in surfaces], dtype=bool)
        is_unknown = is_byte | (ids == (-1 if self._unknown_id is None else self._unknown_id))
        return {
            "words": len(n_pieces),
            "split words": int((n_pieces > 1).sum()),
            "pieces": int(n_pieces.sum()),
            "unknown pieces": int((is_piece & is_unknown).sum()),
            "single-character pieces": int((is_piece & is_single & ~is_unknown).sum()),
        }

    @cached_property
    def _gives_offsets(self) -> bool:
        if self.tokenizer.is_fast:
            return True
        try:
            return "offset_mapping" in self.tokenizer(["a"], return_offsets_mapping=True)
        except (NotImplementedError, TypeError, ValueError):
            return False

    def _kinds(self, ids: Ints, added: Bools) -> Int[Ints, " token"]:
        """Special tokens before any text open the input, as CLS and BOS always do; others close."""
        opening, closing = self._sides
        is_special = added | np.isin(ids, self._special_ids)
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
    def _unknown_id(self) -> int | None:
        """The id of the unknown word, where it is no special token too."""
        unknown: int | None = self.tokenizer.unk_token_id
        return None if unknown in self._special_ids else unknown

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
        model = getattr(getattr(self.tokenizer, "backend_tokenizer", None), "model", None)
        return getattr(model, "continuing_subword_prefix", None) or ""


def special_names(encoding: Encoding) -> dict[str, str]:
    """What the tokenizer calls the tokens that open and close an input."""
    tokens = list(zip(encoding.surfaces, encoding.kinds.tolist(), strict=True))
    return {
        side: " ".join(dict.fromkeys(surface for surface, kind_of in tokens if kind_of == kind))
        for side, kind in (("opening", TokenKind.CLS), ("closing", TokenKind.SEP))
    }


def equal_length_batches(
    encodings: Sequence[Encoding], batch_tokens: int
) -> Iterator[list[Encoding]]:
    """Encodings grouped by length, longest first; at most `batch_tokens` tokens (or one) each.

    There is no padding, so results do not depend on the batch.
    """

    def lengths_of(encoding: Encoding) -> tuple[int, int]:
        return len(encoding), len(encoding.target or ())

    by_length = sorted(encodings, key=lengths_of, reverse=True)
    for lengths, group in groupby(by_length, key=lengths_of):
        members, size = list(group), max(1, batch_tokens // max(lengths))
        yield from (members[start : start + size] for start in range(0, len(members), size))


def piece_offsets(text: str, pieces: Sequence[str]) -> Int[NDArray[np.int64], "piece 2"]:
    """The first character of each piece in the text, and the one after its last.

    Pieces are walked along the text. One that is not there, as it is unknown or was normalized,
    has what stands before the next piece that is there; several in a row have it together.

    >>> piece_offsets("a fine boat", ["▁a", "▁", "<unk>", "ne", "▁boat"]).tolist()
    [[0, 1], [2, 2], [2, 4], [4, 6], [7, 11]]
    """
    offsets, start, number = list[tuple[int, int]](), 0, 0
    while number < len(pieces):
        word = WORD.search(text, start)
        start = word.start() if word else len(text)
        surface = pieces[number].removeprefix(MARK).replace(MARK, " ")
        if text.startswith(surface, start):
            offsets.append((start, start + len(surface)))
            start, number = start + len(surface), number + 1
            continue
        next_number, next_start = _find_next(text, start, pieces, number)
        end = start + len(text[start:next_start].rstrip())
        offsets += [(start, end)] * (next_number - number)
        start, number = next_start, next_number
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def _find_next(text: str, start: int, pieces: Sequence[str], number: int) -> tuple[int, int]:
    """The next piece that is in the text, and where: one with a mark where a word begins, another
    within the word. Else the piece has the rest of the word."""
    word = WORD.match(text, start)
    word_end = word.end() if word else len(text)
    for later in range(number + 1, min(number + MOST_PIECES, len(pieces))):
        surface = pieces[later].removeprefix(MARK).replace(MARK, " ")
        if not surface:
            continue
        if not pieces[later].startswith(MARK):
            position = text.find(surface, start + 1, word_end)
        else:
            begins = (w.start() for w in WORD.finditer(text, word_end, start + MOST_CHARACTERS))
            position = next((b for b in begins if text.startswith(surface, b)), -1)
        if position >= 0:
            return later, position
    return number + 1, word_end
