"""How words became tokens, in a line; and whether the model seems to know the language."""

from collections.abc import Mapping
from typing import Any

from headscope.view.numbers import SHARE

__all__ = ["describe_tokenization", "doubt_languages"]

# Measured on one text in 16 languages. A multilingual tokenizer has at most 3.9 % unknown pieces,
# and where it needs 3 pieces a word at most 41 % of these are single characters. English ones on
# other scripts have 5 to 100 % unknown pieces, or over 3 pieces a word and 72 % or more single.
MOST_UNKNOWN = 0.05
MANY_PIECES, MANY_SINGLE = 3, 0.5
LEAST_WORDS = 20  # fewer words do not tell


def describe_tokenization(counts: Mapping[str, Any]) -> str | None:
    """The tokenization of a pass in a line, by its counts; None where nothing was counted."""
    shares = _shares(counts)
    if shares is None:
        return None
    pieces, split, unknown, single = shares
    return (
        f"{pieces:.2f} pieces per word, {SHARE.number(split)} of words split, "
        f"{SHARE.number(unknown)} of pieces unknown, {SHARE.number(single)} single characters"
    )


def doubt_languages(manifest: Mapping[str, Any]) -> list[str]:
    """Of each corpus whose language the model does not seem to know, why so."""
    doubts: dict[str, str] = {}
    for key, counts in manifest.get("counts", {}).items():
        corpus = manifest.get("passes", {}).get(key, {}).get("corpus", key)
        if corpus not in doubts and _is_foreign(counts):
            doubts[corpus] = (
                f"The model does not seem to know the language of {corpus}: "
                f"{describe_tokenization(counts)}. Its tokens are letters rather than words; "
                f"choose a model for this language."
            )
    return list(doubts.values())


def _is_foreign(counts: Mapping[str, Any]) -> bool:
    shares = _shares(counts)
    if shares is None or counts["tokenization"]["words"] < LEAST_WORDS:
        return False
    pieces, _, unknown, single = shares
    return unknown >= MOST_UNKNOWN or (pieces >= MANY_PIECES and single >= MANY_SINGLE)


def _shares(counts: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    """Pieces per word, and the shares of split words, unknown and single-character pieces."""
    tokenization = counts.get("tokenization", {})
    if not tokenization.get("words"):
        return None
    words, pieces = tokenization["words"], tokenization["pieces"]
    unknown, single = tokenization["unknown pieces"], tokenization["single-character pieces"]
    return pieces / words, tokenization["split words"] / words, unknown / pieces, single / pieces
