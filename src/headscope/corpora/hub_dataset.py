"""Datasets of the `datasets` library as text: streamed from the hub, a folder or a file."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from headscope.contracts import Annotation, CorpusRole
from headscope.corpora.collection import BaseCorpus
from headscope.data.example import Example
from headscope.errors import InputError, suggest

__all__ = ["HubDataset"]

SCHEME = "hf:"
FORM = "hf:NAME[:config][:split][:column]"
READERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}
SPLIT = re.compile(r"(?P<name>[^\[\]]*)(?:\[:(?P<rows>[0-9]{1,15})\])?")
MOST_SAID = 200  # characters of an error of the library


@dataclass(frozen=True)
class HubDataset(BaseCorpus):
    """`hf:NAME[:config][:split][:column]`: each row is an example, encoded just as it is given.

    NAME is a dataset of the hub, a local folder, or a local file. A part that is left empty is
    chosen: the only split or `train`, the column `text` or the only one of strings. A split may be
    `train[:1000]`: the first thousand rows, and no more is fetched. A row without text is an
    example without tokens, which a run counts as skipped.
    """

    scheme = SCHEME
    roles = frozenset({CorpusRole.TEXT})
    provides = frozenset({Annotation.TEXT})

    address: str

    @property
    def name(self) -> str:
        return self.address

    def __iter__(self) -> Iterator[Example]:
        for number, text in enumerate(self._texts(), start=1):
            yield Example(f"{self.name}:{number}", text=text)

    def digest(self) -> str:
        digest = sha256()
        for text in self._texts():
            digest.update(f"{len(text)} {text}".encode())
        return digest.hexdigest()

    def _texts(self) -> Iterator[str]:
        with self._explain_errors():
            n_rows = int(self._split["rows"]) if self._split["rows"] else None
            for number, row in enumerate(islice(self._rows, n_rows), start=1):
                text = row[self._column]
                if not isinstance(text, (str, type(None))):
                    raise InputError(
                        f"{self.name}: row {number} of column {self._column!r} holds a "
                        f"{type(text).__name__}. Expected text; name another column ({FORM})."
                    )
                yield text or ""

    @cached_property
    def _parts(self) -> tuple[str, str, str, str]:
        """Name, configuration, split and column; what was left out is empty."""
        parts = re.split(r":(?![0-9]*\])", self.address.removeprefix(SCHEME))
        if not parts[0] or len(parts) > 4:
            raise InputError(
                f"{self.address!r:.99} names no dataset. Expected {FORM}, such as "
                "hf:my/folder or hf:wikitext:wikitext-2-raw-v1:test:text."
            )
        name, config, split, column = (*parts, "", "", "")[:4]
        return name, config, split, column

    @cached_property
    def _split(self) -> re.Match[str]:
        split = SPLIT.fullmatch(self._parts[2])
        if split is None:
            raise InputError(
                f"{self.name}: no split {self._parts[2]!r:.99}. Expected a name such as train, or "
                "train[:1000] for its first rows; change it."
            )
        return split

    @cached_property
    def _rows(self) -> Any:
        """The split as a stream that can be read again and again."""
        splits = self._open()
        wanted = self._split["name"] or ("train" if "train" in splits else "")
        if not wanted and len(splits) == 1:
            wanted = next(iter(splits))
        if wanted not in splits:
            reason = f"no split {wanted!r}" if wanted else "no split was named"
            raise InputError(
                f"{self.name}: {reason}.{suggest(wanted, splits)} Expected one of "
                f"{', '.join(splits)} ({FORM})."
            )
        return splits[wanted]

    @cached_property
    def _column(self) -> str:
        columns: dict[str, Any] = self._rows.features or next(iter(self._rows), {})
        named = self._parts[3]
        texts = [name for name, kind in columns.items() if _is_text(kind)]
        chosen = named or ("text" if "text" in columns else texts[0] if len(texts) == 1 else "")
        if chosen not in columns:
            reason = f"no column {named!r}" if named else "which column holds the text is not clear"
            raise InputError(
                f"{self.name}: {reason}.{suggest(named, columns)} Expected one of "
                f"{', '.join(columns)} ({FORM})."
            )
        return chosen

    def _open(self) -> Any:
        with self._explain_errors():
            try:
                from datasets.load import load_dataset  # an extra, and slow to import
            except ModuleNotFoundError as error:
                raise InputError(
                    f"{self.name} needs a package that is not installed ({error.name}). Expected "
                    "the extra 'datasets': pip install 'headscope[datasets]'."
                ) from error
            path, config = Path(self._parts[0]), self._parts[1] or None
            if not path.is_file():
                return load_dataset(self._parts[0], config, streaming=True)
            if path.suffix not in READERS:
                raise InputError(
                    f"{self.name}: a file that ends in {path.suffix!r} cannot be read as a "
                    f"dataset. Expected {', '.join(READERS)}; convert it, or pass its folder."
                )
            return load_dataset(READERS[path.suffix], config, data_files=str(path), streaming=True)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (InputError, GeneratorExit):
            raise
        except Exception as error:  # the library and what lies under it have dozens of their own
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:MOST_SAID]
            if isinstance(error, StopIteration):
                reason = "it has no row"
            raise InputError(
                f"{self.name} cannot be read ({reason}). Expected a local folder or file of "
                "parquet or JSON, or a dataset of the hub and a connection to it; check the name "
                f"({FORM})."
            ) from error


def _is_text(kind: object) -> bool:
    """Whether a column is of strings, by its type, or by a value where no type is known."""
    return isinstance(kind, str) or getattr(kind, "dtype", "") in ("string", "large_string")
