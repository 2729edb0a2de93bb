"""Attention between the words of a treebank and their hidden states, written once, read by windows.

A store is a folder: `maps.u16` holds, sentence after sentence, the cells [word, other, head] of
attention from each word to every word and then to the opening and closing special tokens, in 16
bits (`encode_weights`); heads of all layers side by side, first layer first. Attention in the other
direction is the same cell with its words exchanged, so it is not stored again. `hidden-L.f16` holds
the vectors [word, dimension] of layer L (0: the embeddings), of the layers that were asked for, in
half precision.
`header.json` says what the store holds and for what it was made.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
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

__all__ = [
    "StoreIndex", "WordMaps", "decode_weights", "encode_weights", "open_store", "write_store",
]  # fmt: skip

VERSION = 3
MAPS = "maps.u16"
N_SPECIAL = 2  # opening and closing
BYTES = 2  # of a number
LEAST = 2.0**-62  # the smallest weight above 0 that is stored
SHIFT = 2.0**64  # takes weights to where a float32 has only zeros in its two highest bits
CUT = 13  # the lowest bits of a float32, which are not stored
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
    hidden_layers: Sequence[int] = ()  # whose vectors it holds; 0 are the embeddings
    dimension: int = 0  # of these vectors

    @cached_property
    def sizes(self) -> Int[NDArray[np.int64], " sentence"]:
        """How many words each sentence has."""
        return np.array([len(words) for words in self.kept], dtype=np.int64)

    @cached_property
    def starts(self) -> Int[NDArray[np.int64], " sentence+1"]:
        """The cell at which each sentence starts, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes * (self.sizes + N_SPECIAL))])

    @cached_property
    def words(self) -> Int[NDArray[np.int64], " sentence+1"]:
        """The word at which each sentence starts, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def n_maps(self) -> int:
        """Heads of all layers."""
        return self.n_layers * self.n_heads

    @property
    def files(self) -> dict[str, int]:
        """The files of numbers with the bytes of each, in the order of a block's tensors."""
        of_vectors = int(self.words[-1]) * self.dimension * BYTES
        maps = {MAPS: int(self.starts[-1]) * self.n_maps * BYTES}
        return maps | {_hidden_file(layer): of_vectors for layer in self.hidden_layers}

    @property
    def n_bytes(self) -> int:
        """The size of all numbers on the disk."""
        return sum(self.files.values())


def _hidden_file(layer: int) -> str:
    return f"hidden-{layer}.f16"


@dataclass(frozen=True, eq=False)
class WordMaps:
    """A complete store."""

    path: Path
    index: StoreIndex
    chosen: tuple[int, ...] | None = None  # the maps that are read; None: all

    @property
    def ids(self) -> list[str]:
        """The sentences, in the order of the file."""
        return self.index.ids

    @property
    def n_maps(self) -> int:
        """How many maps of each cell are read."""
        return self.index.n_maps if self.chosen is None else len(self.chosen)

    def cells(self, first: int, last: int) -> Float[Tensor, "cell map"]:
        """The cells of sentences `first` up to `last`.

        Only this window is read, so that memory does not grow with the treebank.
        """
        start, end = (int(cell) for cell in self.index.starts[[first, last]])
        cells = self._window(MAPS, np.uint16, start, end, self.index.n_maps)
        return decode_weights(cells if self.chosen is None else cells[:, self.chosen])

    def hidden(self, index: int, layer: int) -> Float[Tensor, "word dimension"]:
        """The vectors of one sentence's words at a layer."""
        start, end = (int(word) for word in self.index.words[[index, index + 1]])
        file = _hidden_file(layer)
        return torch.from_numpy(self._window(file, np.float16, start, end, self.index.dimension))

    def _window(self, file: str, dtype: Any, start: int, end: int, width: int) -> NDArray[Any]:
        """Rows of a file: [row, width]."""
        numbers = np.empty((end - start, width), dtype)
        with (self.path / file).open("rb", buffering=0) as stream:  # mmap takes five times as long
            stream.seek(start * width * BYTES)
            if stream.readinto(numbers.reshape(-1).data) != numbers.nbytes:
                raise _refusal(self.path, f"has been cut: {file} ends too early")
        return numbers

    def sentence(self, index: int) -> Float[Tensor, "word other map"]:
        """The maps of one sentence; the last two others are the special tokens."""
        n = int(self.index.sizes[index])
        return self.cells(index, index + 1).view(n, n + N_SPECIAL, self.n_maps)


def encode_weights(weights: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Weights from 0 to 1 in 16 bits: six of exponent, ten of fraction, none of sign.

    As exact as half precision, but down to 1e-19 instead of 6e-5. Half precision turns weights
    below 3e-8 into 0, which means that a word is not looked at. Here only 0 becomes 0.
    """
    kept = torch.where(weights > 0, weights.clamp_min(LEAST), 0.0).float() / SHIFT
    rounded = kept.view(torch.int32) + (1 << (CUT - 1))
    return (rounded >> CUT).to(torch.int16)  # torch knows few operations for uint16


def decode_weights(codes: NDArray[Any]) -> Float[Tensor, "*shape"]:
    """The weights of these codes, in single precision."""
    bits = codes.view(np.uint16).astype(np.int32)
    bits <<= CUT
    return torch.from_numpy(bits.view(np.float32)).mul_(SHIFT)


def write_store(path: Path, index: StoreIndex, blocks: Iterable[Sequence[Tensor]]) -> WordMaps:
    """Write blocks one after the other, a tensor for each file; all of the store, or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_small_disk(path, index.n_bytes)
        temporary = path.with_name(f".{path.name[:100]}.{token_hex(8)}")
        temporary.mkdir()  # for whom the umask says
        try:
            checksums = _write_files(temporary, index.files, blocks)
            header = {"version": VERSION, "checksums": checksums, "index": asdict(index)}
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


def _write_files(
    folder: Path, sizes: Mapping[str, int], blocks: Iterable[Sequence[Tensor]]
) -> dict[str, str]:
    """The checksum of each file."""
    with ExitStack() as stack:
        streams = [stack.enter_context((folder / name).open("wb")) for name in sizes]
        digests = [blake2b() for _ in streams]
        for block in blocks:
            for tensor, stream, digest in zip(block, streams, digests, strict=True):
                content = tensor.contiguous().numpy().data
                stream.write(content)
                digest.update(content)
        for stream, (name, size) in zip(streams, sizes.items(), strict=True):
            if stream.tell() != size:
                raise ValueError(f"{stream.tell()} bytes of {name}, not {size}")
            _flush(stream.fileno(), stream.flush)
    return {name: digest.hexdigest() for name, digest in zip(sizes, digests, strict=True)}


def open_store(path: Path, key: Mapping[str, Any]) -> WordMaps:
    """The store in a folder, if it is complete and was made for this key."""
    try:
        header = json.loads((path / "header.json").read_text(encoding="utf-8"))
        version = header["version"]
        if version != VERSION:
            raise _refusal(path, f"has version {version} of the format, not {VERSION}")
        index = StoreIndex(**header["index"])
        sizes = {name: (path / name).stat().st_size for name in index.files}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refusal(path, f"cannot be read ({error})") from error
    for name, expected in key.items():
        stored = index.key.get(name)
        if stored != expected:
            raise _refusal(path, f"belongs to another {name} ({stored}, not {expected})")
    for name, expected in index.files.items():
        if sizes[name] != expected:
            wrong = f"is truncated: it has {sizes[name]} bytes of {name}, not {expected}"
            raise _refusal(path, wrong)
        with (path / name).open("rb") as stream:
            if file_digest(stream, blake2b).hexdigest() != header["checksums"][name]:
                raise _refusal(path, f"is damaged: the checksum of {name} differs")
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
            f"The store takes {n_bytes / 1e6:.0f} MB, but the disk of {path.parent} has "
            f"{free / 1e6:.0f} MB free. Expected room for them; free some, choose another --store, "
            "or take fewer --sentences or --hidden-layers."
        )


def _flush(descriptor: int, flush: Any) -> None:
    flush()
    os.fsync(descriptor)
