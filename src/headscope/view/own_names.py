"""The model's own names of its special tokens, in sentences written with the paper's."""

from collections.abc import Mapping
from typing import Any

__all__ = ["name_specials"]


def name_specials(text: str, model: Mapping[str, Any] | None, kind: str = "") -> str:
    """The text with the model's names for [CLS] and [SEP]; where it has none, the paper's stay.

    `model` is what the manifest says of it, `kind` the kind of attention that the text is about.

    >>> model = {"special_tokens": {"closing": "</s>", "decoder opening": "<pad>"}}
    >>> name_specials("the opening token ([CLS])", model, "decoder")
    'the opening token (<pad>)'
    """
    names = (model or {}).get("special_tokens", {})
    opening = names.get("decoder opening" if kind == "decoder" else "opening")
    text = text.replace("[CLS]", opening or "[CLS]")
    return text.replace("[SEP]", names.get("closing") or "[SEP]")
