"""JSON lines: every line is one example, encoded just as it is given."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.lines import FROM_START, FileCorpus, read_lines
from headscope.data.example import Example
from headscope.data.link import Link, parse_links
from headscope.errors import InputError

__all__ = ["JsonlCorpus"]

EXPECTED = (
    'Expected {"id": ..., "text": ..., "text_pair"?: ..., "alignment"?: "0-0 1-2"} or '
    '{"id": ..., "words": [...]}, each with or without a "document"'
)


@dataclass(frozen=True)
class JsonlCorpus(FileCorpus):
    """A `.jsonl` file of texts, pairs of texts, or words. Without an id, the line number is it.

    Its first example says whether texts have targets (`text_pair`) and gold alignments.
    """

    roles = frozenset({CorpusRole.TEXT})
    suffixes = (".jsonl",)
    opens_after = FileCorpus.LINE

    @cached_property
    def provides(self) -> frozenset[str]:
        try:
            first = next(iter(self.opened(FROM_START)), None)
        except InputError:  # told when the file is read
            first = None
        has_target = first is not None and first.text_pair is not None
        has_links = has_target and first is not None and first.links is not None
        return frozenset(
            [Annotation.TEXT, *[Annotation.TARGETS] * has_target]
            + [Annotation.ALIGNMENTS] * has_links
        )

    def __iter__(self) -> Iterator[Example]:
        for number, line in read_lines(self.path, self.opening):
            if line.strip():
                yield self._read_example(line, number)

    def _read_example(self, line: str, number: int) -> Example:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise self._error(number, f"this is not a JSON object ({error})") from error
        if not isinstance(record, dict):
            raise self._error(number, "this is not a JSON object")
        if re.search("[\ud800-\udfff]", json.dumps(record, ensure_ascii=False)):
            raise self._error(number, "an escape stands for half a character (a lone surrogate)")
        example_id = self._read_name(record, "id", number) or f"{self.name}:{number}"
        document = self._read_name(record, "document", number)
        if ("text" in record) == ("words" in record):
            raise self._error(number, "there must be either text or words")
        if "words" in record:
            words = record["words"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise self._error(number, "words must be a list of strings")
            return Example(example_id, words=tuple(words), document=document)
        text, pair = record["text"], record.get("text_pair")
        if not isinstance(text, str) or not isinstance(pair, (str, type(None))):
            raise self._error(number, "text and text_pair must be strings")
        links = self._read_links(record, number)
        try:
            return Example(example_id, text, pair, links=links, document=document)
        except ValueError as error:
            raise self._error(number, "the alignment links a word that is not there") from error

    def _read_name(self, record: dict[str, Any], key: str, number: int) -> str | None:
        """A string or number of the record as a string; None where it has none."""
        value = record.get(key)
        if not isinstance(value, (str, int, type(None))):
            raise self._error(number, f"the {key} {value!r} is not a string or number")
        return None if value is None else str(value)

    def _read_links(self, record: dict[str, Any], number: int) -> tuple[Link, ...] | None:
        if record.get("alignment") is None:
            return None
        try:
            return parse_links(str(record["alignment"]))
        except ValueError as error:
            raise self._error(number, str(error)) from error

    def _error(self, number: int, problem: str) -> InputError:
        return InputError(f"{self.path}:{number}: {problem}. {EXPECTED}; mend or remove the line.")
