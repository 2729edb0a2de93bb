"""A slow tokenizer such as Marian's: SentencePiece's marked pieces, no positions in the text."""

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from transformers import PreTrainedTokenizer

SPECIAL = ["</s>", "<unk>", "<pad>"]  # Marian's, whose decoder opens with <pad>
PIECES = ["\u2581", *"abdefghilnorstw'.,()", "the", "boat", "sail", "sails", "n't", "one"]
PIECES += ["\u2581the", "\u2581boat", "\u2581do", "\u2581one", "\u2581two", "\u2581fine"]


class MarkedPieces(PreTrainedTokenizer):  # type: ignore[misc]
    """The longest known piece each time; spaces are marks, and text is brought to form NFKC."""

    def __init__(self, **options: Any) -> None:
        self.ids = {piece: i for i, piece in enumerate([*SPECIAL, *PIECES])}
        names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
        super().__init__(**{**names, **options})

    @property
    def vocab_size(self) -> int:
        return len(self.ids)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.ids)

    def _tokenize(self, text: str, **options: Any) -> list[str]:
        marked = "".join(f"\u2581{word}" for word in normalize("NFKC", text).split())
        pieces, place = [], 0
        while place < len(marked):
            sizes = (n for n in range(8, 0, -1) if marked[place : place + n] in self.ids)
            size = next(sizes, 1)
            pieces.append(marked[place : place + size])
            place += size
        return pieces

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids.get(token, self.ids["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return [*self.ids][index]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace("\u2581", " ").strip()

    def build_inputs_with_special_tokens(self, one: list[int], two: Any = None) -> list[int]:
        return [*one, *(two or []), self.ids["</s>"]]

    def get_special_tokens_mask(self, one: list[int], two: Any = None, **options: Any) -> list[int]:
        return [0] * (len(one) + len(two or [])) + [1]
