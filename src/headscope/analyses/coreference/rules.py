"""Antecedents without a model: the nearest mention, the nearest with the same head, and sieves."""

from collections.abc import Callable, Mapping, Sequence

from headscope.data.example import Mention

__all__ = ["SYSTEMS", "agrees"]

FEATURES = ("number", "gender", "person")

Words = Sequence[str]
Pick = Callable[[Mention, Sequence[Mention], Words], Mention | None]  # candidates nearest first


def agrees(mention: Mention, other: Mention) -> bool:
    """Whether nothing that is known of both speaks against them."""
    pairs = [(getattr(mention, name), getattr(other, name)) for name in FEATURES]
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def pick_nearest(mention: Mention, candidates: Sequence[Mention], words: Words) -> Mention | None:
    """The nearest mention, whatever it is."""
    return next(iter(candidates), None)


def pick_same_head(mention: Mention, candidates: Sequence[Mention], words: Words) -> Mention | None:
    """The nearest mention with the same head word; none where no other has it."""
    return next((other for other in candidates if _has_same_head(mention, other, words)), None)


def pick_by_sieves(mention: Mention, candidates: Sequence[Mention], words: Words) -> Mention | None:
    """The nearest mention that passes the earliest sieve that any passes."""
    sieves: tuple[Callable[[Mention], bool], ...] = (
        lambda other: _string(mention, words) == _string(other, words),
        lambda other: _has_same_head(mention, other, words),
        lambda other: agrees(mention, other),
        lambda other: True,
    )
    passed = (other for passes in sieves for other in candidates if passes(other))
    return next(passed, None)


SYSTEMS: Mapping[str, Pick] = {
    "nearest": pick_nearest,
    "head-match": pick_same_head,
    "rule-based": pick_by_sieves,
}


def _has_same_head(mention: Mention, other: Mention, words: Words) -> bool:
    return words[mention.head].lower() == words[other.head].lower()


def _string(mention: Mention, words: Words) -> list[str]:
    return [word.lower() for word in words[mention.start : mention.end]]
