"""The head word of a span by a phrase-structure parse, as CoNLL-2012 has it in a column."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headscope.errors import InputError

__all__ = ["Phrase", "find_phrase_head", "read_parse"]

NOUN_TAGS = frozenset({"NN", "NNS", "NNP", "NNPS", "PRP", "PRP$", "WP", "WP$", "CD", "DT", "JJ"})
NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
PART = re.compile(r"\((?P<label>[^\s()*]+)|(?P<close>\))")


@dataclass
class Phrase:
    """A phrase over words `start` to `end` (not included)."""

    label: str
    start: int
    end: int = -1
    children: list["Phrase"] = field(default_factory=list)


def read_parse(path: Path, bits: Sequence[str], lines: Sequence[int], start: int) -> Phrase:
    """The tree of a sentence from its column of parse bits, such as `(TOP(S(NP*)`."""
    root = Phrase("", start)
    stack = [root]
    for word, (bit, line) in enumerate(zip(bits, lines, strict=True), start=start):
        for match in PART.finditer(bit):
            if match["label"]:
                phrase = Phrase(match["label"], word)
                stack[-1].children.append(phrase)
                stack.append(phrase)
            elif match["close"]:
                if len(stack) == 1:
                    _refuse(path, line, "closes a phrase that did not begin")
                stack.pop().end = word + 1
    if len(stack) > 1:
        _refuse(path, lines[-1], f"leaves the phrase {stack[-1].label} open")
    root.end = start + len(bits)
    return root


def find_phrase_head(phrase: Phrase, tags: Sequence[str], start: int, end: int) -> int:
    """The head of the smallest phrase that holds the span, looked for within the span.

    A noun phrase that begins with another one, which the rest modifies, has the head of that one;
    else the last noun counts, and else the last word.
    """
    smallest = phrase
    while True:
        inner = [c for c in smallest.children if c.start <= start and end <= c.end]
        if not inner:
            break
        smallest = inner[0]
    within = [c for c in smallest.children if start <= c.start and c.end <= end]
    for child in within:
        is_first = child.label.startswith("NP") and child.end < end
        if is_first and not _is_possessor(child, tags):
            return find_phrase_head(child, tags, child.start, child.end)
    covered = {word for child in within for word in range(child.start, child.end)}
    own = [word for word in range(start, end) if word not in covered] or list(range(start, end))
    for wanted in (NOUNS, NOUN_TAGS):
        found = [word for word in own if tags[word] in wanted]
        if found:
            return found[-1]
    return own[-1]


def _is_possessor(phrase: Phrase, tags: Sequence[str]) -> bool:
    """Whether the phrase ends in 's: what follows it is then the head."""
    return tags[phrase.end - 1] == "POS"


def _refuse(path: Path, line: int, what: str) -> None:
    raise InputError(
        f"{path}:{line}: the parse {what}. Expected balanced brackets such as (NP* and *); mend "
        "the column, or fill it with '-' to do without a parse."
    )
