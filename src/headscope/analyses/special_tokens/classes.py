"""Classes of tokens: special ones that open or close the input, the user's own, punctuation.

Where an input opens with an ordinary token (GPT-2), that token is often a sink for attention, as
[SEP] is in BERT; it has a class of its own, `first`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from jaxtyping import Float

from headscope.data.encoding import Batch, TokenKind
from headscope.data.example import stable_hash
from headscope.errors import StudyError, shorten
from headscope.lazy import Tensor, torch
from headscope.options import option

__all__ = [
    "MARKS", "SINK", "TokenClasses", "check_classes", "class_names", "classify", "count_tokens",
    "token_classes_option",
]  # fmt: skip

TokenClasses = Mapping[str, Collection[str]]  # name -> tokens as text

PERIODS = frozenset(
    ".。．｡۔।։።။។"
)  # Latin, Chinese, Urdu, Hindi, Armenian, Amharic, Burmese, Khmer
COMMAS = frozenset(",，、､،՝፣၊")
PUNCTUATION = PERIODS | COMMAS
MARKS = {"period": PERIODS, "comma": COMMAS}
N_BINS = 1024  # for the counts of all other tokens, whose number is open
SINK = "sink"  # attention to no token, in models that learn one
OWN_NAMES = ("cls", "sep", "first", "punctuation", "other", SINK)


def token_classes_option() -> Any:
    """The field for the user's own classes of tokens."""
    help = "Add a token class of your own: NAME=token,token (repeatable)."
    return option({}, help, flag="--token-class", parse=read_classes, repeat=True)


def read_classes(items: Sequence[str]) -> dict[str, list[str]]:
    """The classes that a command names.

    >>> read_classes(["quotes=',`", "digits=1,2,"])
    {'quotes': ["'", '`'], 'digits': ['1', '2']}
    """
    parts = [item.partition("=") for item in items]
    return {name: [token for token in tokens.split(",") if token] for name, _, tokens in parts}


def check_classes(classes: TokenClasses) -> None:
    """An error for a class of the user's that cannot be used."""
    for name, tokens in classes.items():
        is_list = isinstance(tokens, (list, tuple)) and all(isinstance(t, str) for t in tokens)
        if name in OWN_NAMES or not name or not tokens or not is_list:
            raise StudyError(
                f"Token class {shorten(name)!r} cannot be used: a class needs a name other than "
                f"{', '.join(OWN_NAMES)}, and at least one token. "
                "Write it as NAME=token,token, for example --token-class quotes=\",'."
            )


def class_names(classes: TokenClasses) -> list[str]:
    """The classes a token can have, in the order of tables."""
    return ["cls", "sep", "first", *classes, "punctuation", "other"]


def classify(batch: Batch, classes: TokenClasses) -> Float[Tensor, "example token class"]:
    """One-hot class of every token; where several apply, the first of `class_names` counts."""
    key = ("classes", tuple(map(tuple, classes.values())))
    return batch.remember(key, lambda: _classify(batch, classes))


def _classify(batch: Batch, classes: TokenClasses) -> Tensor:
    named = [batch.find_surfaces(frozenset(tokens)) for tokens in classes.values()]
    is_first = torch.zeros_like(batch.kinds, dtype=torch.bool)
    is_first[:, 0] = True
    masks = [
        batch.kinds == TokenKind.CLS,
        batch.kinds == TokenKind.SEP,
        is_first,
        *named,
        batch.find_surfaces(PUNCTUATION),
        torch.ones_like(batch.kinds, dtype=torch.bool),
    ]
    applies = torch.stack(masks, dim=-1).int()  # [example, token, class]
    return ((applies.cumsum(-1) == 1) & (applies == 1)).float()


def count_tokens(batch: Batch) -> dict[str, Tensor]:
    """How often each example has the tokens of MARKS, other tokens by bin, and any token of text.

    A bin holds the tokens with its hash. The count of a bin is at least that of each of its tokens,
    so that no token is more frequent than a mark that is more frequent than every bin.
    """
    marks = [batch.find_surfaces(surfaces).sum(-1) for surfaces in MARKS.values()]
    others = torch.zeros(len(batch), N_BINS, device=batch.device)
    for i, encoding in enumerate(batch.encodings):
        is_text = encoding.kinds == TokenKind.TEXT
        surfaces = (
            surface for surface, is_own in zip(encoding.surfaces, is_text, strict=True) if is_own
        )
        bins = [bin_of(surface) for surface in surfaces if surface not in PUNCTUATION]
        others[i] = torch.bincount(torch.tensor(bins, dtype=torch.long), minlength=N_BINS)
    counted = torch.stack(marks, dim=-1).float()  # [example, mark]
    n_tokens = (batch.kinds == TokenKind.TEXT).sum(-1).float()  # [example]
    return {
        "marks": counted,
        "others": others,  # [example, bin]
        "tokens": n_tokens,
    }


@cache
def bin_of(surface: str) -> int:
    """The same for a token on every machine."""
    return stable_hash(surface) % N_BINS
