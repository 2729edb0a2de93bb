"""Classes of tokens: special ones that open or close the input, the user's own, punctuation.

Where an input opens with an ordinary token (GPT-2), that token is often a sink for attention, as
[SEP] is in BERT; it has a class of its own, `first`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.data.encoding import Batch, TokenKind
from headscope.errors import StudyError
from headscope.options import option

__all__ = [
    "SINK", "TokenClasses", "check_classes", "class_names", "classify", "token_classes_option",
]  # fmt: skip

TokenClasses = Mapping[str, Collection[str]]  # name -> tokens as text

PUNCTUATION = frozenset({".", ","})
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
        if name in OWN_NAMES or not name or not tokens:
            raise StudyError(
                f"Token class {name!r} cannot be used: a class needs a name other than "
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
