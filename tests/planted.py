"""Attention with known heads planted in noise: what a run must find."""

import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import torch

from headscope.data.encoding import Encoding, TokenKind
from tests.making import MadeSource, random_maps

PREVIOUS, NEXT, CLOSING, BROAD = (0, 1), (0, 4), (2, 0), (1, 2)  # (layer, head), zero-based


def plant(encoding: Encoding) -> torch.Tensor:
    """Random maps in which one head looks back, one ahead, one at [SEP], and one everywhere."""
    maps = random_maps(encoding)  # [layer, head, query, key]
    n = len(encoding)
    sep = int((encoding.kinds == TokenKind.SEP).nonzero()[0][-1])
    wanted = {
        PREVIOUS: torch.eye(n).roll(-1, dims=1),
        NEXT: torch.eye(n).roll(1, dims=1),
        CLOSING: torch.eye(n)[[sep] * n],
    }
    for (layer, head), pattern in wanted.items():
        maps[layer, head] = 0.1 * maps[layer, head] + 0.9 * pattern
    maps[BROAD] = 1 / n
    return maps


PLANTED = MadeSource(plant)

TWINS = (0, 3), (2, 2)


def plant_twins(encoding: Encoding) -> torch.Tensor:
    """Random maps in which two heads of different layers attend alike."""
    maps = random_maps(encoding)
    maps[TWINS[1]] = 0.98 * maps[TWINS[0]] + 0.02 * maps[TWINS[1]]
    return maps


@dataclass(frozen=True)
class Starve:
    """Planted maps that take a gigabyte; the first process at an example is denied it."""

    folder: Path  # where it is noted that this has happened
    example: str

    def __call__(self, encoding: Encoding) -> torch.Tensor:
        if encoding.example.id == self.example:
            with suppress(FileExistsError):
                (self.folder / "starved").touch(exist_ok=False)
                most = psutil.Process().memory_info().vms
                resource.setrlimit(resource.RLIMIT_AS, (most, most))
        np.empty(1 << 27)
        return plant(encoding)
