"""Mentions written as brackets: `(1` opens one of cluster 1, `1)` closes it, `(1)` is one word."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headscope.errors import InputError

__all__ = ["Brackets", "Span"]

BRACKET = re.compile(r"\((?P<single>[^()]+)\)|\((?P<open>[^()]+)|(?P<close>[^()]+)\)")


class Span(NamedTuple):
    """Words `start` to `end` (not included) of a document, in a cluster."""

    start: int
    end: int
    cluster: str


@dataclass
class Brackets:
    """The brackets of a document, read word by word."""

    path: Path
    id_field: int = 0  # which field of "e1-person-..." names the cluster
    spans: set[Span] = field(default_factory=set)
    _open: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # (word, line)

    def read(self, word: int, line: int, text: str) -> None:
        """Take in the brackets that stand at a word."""
        if "[" in text:
            raise InputError(
                f"{self.path}:{line}: {text!r} is part of a mention in several parts. Expected "
                "mentions without gaps; keep its main part, or leave the mention out."
            )
        position = 0
        for match in BRACKET.finditer(text):
            if match.start() != position:
                break
            position = match.end()
            if match["close"]:
                self._close(self._name(match["close"]), word, line)
            else:
                cluster = self._name(match["single"] or match["open"])
                self._open.setdefault(cluster, []).append((word, line))
                if match["single"]:
                    self._close(cluster, word, line)
        if position != len(text):
            raise InputError(
                f"{self.path}:{line}: {text!r} is not a mention. Expected brackets such as (1, 1) "
                "or (1), with or without fields after the number; mend the row."
            )

    def finish(self) -> list[Span]:
        """All mentions in order, outer ones first; an error if one is still open."""
        for cluster, opened in self._open.items():
            if opened:
                raise InputError(
                    f"{self.path}:{opened[-1][1]}: the mention of {cluster!r} that begins here "
                    "never ends. Expected a closing bracket in the same document; add it, or "
                    "remove the opening one."
                )
        return sorted(self.spans, key=lambda span: (span.start, -span.end, span.cluster))

    def _close(self, cluster: str, word: int, line: int) -> None:
        if not self._open.get(cluster):
            raise InputError(
                f"{self.path}:{line}: a mention of {cluster!r} ends here that did not begin. "
                "Expected an opening bracket before it in the same document; add it, or remove "
                "the closing one."
            )
        start, _ = self._open[cluster].pop()
        self.spans.add(Span(start, word + 1, cluster))

    def _name(self, text: str) -> str:
        fields = text.split("-")
        return fields[self.id_field] if self.id_field < len(fields) else fields[0]
