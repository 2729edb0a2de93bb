"""JSON lines: every line is one example, encoded just as it is given."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.lines import FileCorpus, read_lines
from headscope.data.example import Example
from headscope.errors import InputError

__all__ = ["JsonlCorpus"]

EXPECTED = (
    'Expected {"id": ..., "text": ..., "text_pair"?: ...} or {"id": ..., "words": [...]}, each '
    'with or without a "document"'
)


@dataclass(frozen=True)
class JsonlCorpus(FileCorpus):
    """A `.jsonl` file of texts, pairs of texts, or words. Without an id, the line number is it."""

    roles = frozenset({CorpusRole.TEXT})
    suffixes = (".jsonl",)
    provides = frozenset({Annotation.TEXT})

    def __iter__(self) -> Iterator[Example]:
        for number, line in read_lines(self.path):
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
        example_id = record.get("id", f"{self.name}:{number}")
        if not isinstance(example_id, (str, int)):
            raise self._error(number, f"the id {example_id!r} is not a string or number")
        document = record.get("document")
        if not isinstance(document, (str, int, type(None))):
            raise self._error(number, f"the document {document!r} is not a string or number")
        document = None if document is None else str(document)
        if ("text" in record) == ("words" in record):
            raise self._error(number, "there must be either text or words")
        if "words" in record:
            words = record["words"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise self._error(number, "words must be a list of strings")
            return Example(str(example_id), words=tuple(words), document=document)
        text, pair = record["text"], record.get("text_pair")
        if not isinstance(text, str) or not isinstance(pair, (str, type(None))):
            raise self._error(number, "text and text_pair must be strings")
        return Example(str(example_id), text=text, text_pair=pair, document=document)

    def _error(self, number: int, problem: str) -> InputError:
        return InputError(f"{self.path}:{number}: {problem}. {EXPECTED}; mend or remove the line.")
