"""Attention between the words of a treebank, written once and read window by window.

A store is a folder: `maps.f16` holds, sentence after sentence, the cells [word, other, head] of
attention from each word to every word and then to the opening and closing special tokens, in
half precision; heads of all layers side by side, first layer first. Attention in the other
direction is the same cell with its words exchanged, so it is not stored again. `header.json` says
what the store holds and for what it was made.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b, file_digest
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headscope.errors import OutputError

__all__ = ["StoreIndex", "WordMaps", "open_store", "write_store"]

VERSION = 1
N_SPECIAL = 2  # opening and closing
BYTES = 2  # of a number in half precision
SPARE = 64 << 20  # bytes that must be left on the disk


@dataclass(frozen=True)
class StoreIndex:
    """What a store holds, known before it is written."""

    key: Mapping[str, Any]  # model, corpus and options: everything the maps depend on
    n_layers: int
    n_heads: int
    ids: list[str]
    kept: list[list[int]]  # the words of each sentence that have tokens
    counts: Mapping[str, Any]

    @cached_property
    def sizes(self) -> Int[NDArray[np.int64], " sentence"]:
        """How many words each sentence has."""
        return np.array([len(words) for words in self.kept], dtype=np.int64)

    @cached_property
    def starts(self) -> Int[NDArray[np.int64], " sentence+1"]:
        """The cell at which each sentence starts, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes * (self.sizes + N_SPECIAL))])

    @property
    def n_maps(self) -> int:
        """Heads of all layers."""
        return self.n_layers * self.n_heads

    @property
    def n_bytes(self) -> int:
        """The size of the maps on the disk."""
        return int(self.starts[-1]) * self.n_maps * BYTES


@dataclass(frozen=True, eq=False)
class WordMaps:
    """A complete store."""

    path: Path
    index: StoreIndex

    @property
    def ids(self) -> list[str]:
        """The sentences, in the order of the file."""
        return self.index.ids

    @property
    def n_maps(self) -> int:
        """Heads of all layers."""
        return self.index.n_maps

    def cells(self, first: int, last: int) -> Float[Tensor, "cell map"]:
        """The cells of sentences `first` up to `last`, mapped from the file for as long as held.

        Only this window is mapped, so that memory does not grow with the treebank.
        """
        start, end = (int(cell) for cell in self.index.starts[[first, last]])
        window = np.memmap(
            self.path / "maps.f16",
            dtype=np.float16,
            mode="c",  # private: nothing done to it reaches the file
            offset=start * self.n_maps * BYTES,
            shape=(end - start, self.n_maps),
        )
        return torch.from_numpy(window)

    def sentence(self, index: int) -> Float[Tensor, "word other map"]:
        """The maps of one sentence; the last two others are the special tokens."""
        n = int(self.index.sizes[index])
        return self.cells(index, index + 1).view(n, n + N_SPECIAL, self.n_maps)


def write_store(path: Path, index: StoreIndex, blocks: Iterable[Tensor]) -> WordMaps:
    """Write the blocks of cells one after the other; all of the store, or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_small_disk(path, index.n_bytes)
        temporary = path.with_name(f".{path.name[:100]}.{token_hex(8)}")
        temporary.mkdir()  # for whom the umask says
        try:
            digest = blake2b()
            with (temporary / "maps.f16").open("wb") as stream:
                for block in blocks:
                    content = block.numpy().data
                    stream.write(content)
                    digest.update(content)
                n_written = stream.tell()
                _flush(stream.fileno(), stream.flush)
            if n_written != index.n_bytes:
                raise ValueError(f"{n_written} bytes of maps, not {index.n_bytes}")
            header = {"version": VERSION, "checksum": digest.hexdigest(), "index": asdict(index)}
            with (temporary / "header.json").open("w", encoding="utf-8") as text:
                json.dump(header, text)
                _flush(text.fileno(), text.flush)
            temporary.replace(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise OutputError(
            f"The store {path} cannot be written: {error.strerror or error}. Expected a writable "
            "folder with free space; free some, or choose another --store. Nothing is left behind."
        ) from error
    return WordMaps(path, index)


def open_store(path: Path, key: Mapping[str, Any]) -> WordMaps:
    """The store in a folder, if it is complete and was made for this key."""
    try:
        header = json.loads((path / "header.json").read_text(encoding="utf-8"))
        version = header["version"]
        if version != VERSION:
            raise _refusal(path, f"has version {version} of the format, not {VERSION}")
        index = StoreIndex(**header["index"])
        size = (path / "maps.f16").stat().st_size
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refusal(path, f"cannot be read ({error})") from error
    for name, expected in key.items():
        found = index.key.get(name)
        if found != expected:
            raise _refusal(path, f"belongs to another {name} ({found}, not {expected})")
    if size != index.n_bytes:
        raise _refusal(path, f"is truncated: it has {size} bytes of maps, not {index.n_bytes}")
    with (path / "maps.f16").open("rb") as stream:
        if file_digest(stream, blake2b).hexdigest() != header["checksum"]:
            raise _refusal(path, "is damaged: its checksum differs")
    return WordMaps(path, index)


def _refusal(path: Path, reason: str) -> OutputError:
    return OutputError(
        f"The store {path} {reason}. Expected the whole maps of this model and treebank; remove "
        "the folder, and they are measured again."
    )


def _refuse_small_disk(path: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if n_bytes + SPARE > free:
        raise OutputError(
            f"The attention maps take {n_bytes / 1e6:.0f} MB, but the disk of {path.parent} has "
            f"{free / 1e6:.0f} MB free. Expected room for them; free some, choose another --store, "
            "or take fewer --sentences."
        )


def _flush(descriptor: int, flush: Any) -> None:
    flush()
    os.fsync(descriptor)
