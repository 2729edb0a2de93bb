"""What a run keeps between steps in files of numbers: the sums of a pass, the state of a probe."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_arrays
from safetensors.torch import save as save_tensors
from torch import Tensor

from headscope.data.counts import ExampleCounts
from headscope.engine.measure import Result
from headscope.errors import OutputError, shorten
from headscope.files import write_atomically
from headscope.runs.manifest import FORMAT
from headscope.stats.ranking import Ranking
from headscope.stats.sums import Tally

__all__ = [
    "Checkpoint", "EarlierSumsError", "SavedSums", "StateFile", "read_checkpoint",
    "write_checkpoint",
]  # fmt: skip

# These begin the names of what is no total in a file of sums.
RANKED, RESTS, DOCUMENTS = "ranked", "rests", "documents"
FACTS, CHECKSUM = "facts", "checksum"
DAMAGE = (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError)
SAVE_RATIO = 20  # a save is as long ago as it took, times this, before the next: 5 % of the time


@dataclass(frozen=True)
class Checkpoint:
    """The sums over the shards of a pass that are done."""

    result: Result = field(default_factory=Result)
    shards: tuple[int, ...] = ()


class SavedSums:
    """The sums of a pass, saved after each shard, or less often where saving takes long.

    A shard counts once, however often it is added. What is not saved yet is saved at the end.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        begun = read_checkpoint(path) if path and path.exists() else Checkpoint()
        self._result = Result() + begun.result  # its own, to add to in place
        self.shards = dict.fromkeys(begun.shards)
        self._is_saved, self._next_save = True, 0.0

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self._result, tuple(self.shards))

    def add(self, shards: Collection[int], result: Result) -> None:
        """Add the sums over some shards, if they are not there yet."""
        if not self.shards.keys().isdisjoint(shards):
            return
        self._result += result
        self.shards |= dict.fromkeys(shards)
        self._is_saved = False
        if monotonic() >= self._next_save:
            self._save()

    def __enter__(self) -> "SavedSums":
        return self

    def __exit__(self, *error: object) -> None:
        self._save()

    def _save(self) -> None:
        if self._path is None or self._is_saved:
            return
        start = monotonic()
        write_checkpoint(self._path, self.checkpoint)
        self._is_saved, self._next_save = True, monotonic() + SAVE_RATIO * (monotonic() - start)


@dataclass(frozen=True)
class StateFile:
    """Tensors and facts in one file, in the place of those before."""

    path: Path

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was saved last, if anything was."""
        return read_arrays(self.path, "pt") if self.path.exists() else None

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write the state, whole or not at all."""
        plain = {name: value.contiguous() for name, value in tensors.items()}
        arrays = {name: value.cpu().numpy() for name, value in plain.items()}
        write_atomically(self.path, save_tensors(plain, metadata=describe_arrays(arrays, facts)))


class EarlierSumsError(OutputError):
    """Sums that another version of headscope wrote."""


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Keep the sums, the rankings and the counts, whole or not at all."""
    result = checkpoint.result
    arrays: dict[str, Any] = {DOCUMENTS: np.array(sorted(result.documents), np.uint64)}
    for analysis, tally in result.tallies.items():
        arrays |= {f"{analysis}/{name}": total for name, total in tally.totals.items()}
        arrays |= {f"{RESTS}/{analysis}/{name}": rest for name, rest in tally.rests.items()}
    for analysis, ranking in result.rankings.items():
        for kind, parts in vars(ranking).items():
            arrays |= {f"{RANKED}/{kind}/{analysis}/{name}": part for name, part in parts.items()}
    facts = {
        "shards": checkpoint.shards,
        "analyses": list(result.tallies),
        "counts": asdict(result.counts),
        "seconds": result.seconds,
        "format": FORMAT,
    }
    write_atomically(path, save_arrays(arrays, metadata=describe_arrays(arrays, facts)))


def read_checkpoint(path: Path) -> Checkpoint:
    """What was written, or an error that names the damaged file."""
    arrays, facts = read_arrays(path, "numpy")
    if isinstance(facts, dict) and facts.get("format", 0) != FORMAT:
        raise EarlierSumsError(
            f"{path} holds sums of another version of headscope, which cannot be used. Its tables "
            "and its page can still be read; to resume, merge or compare the run, run the analysis "
            "again with this version."
        )
    try:
        documents = set(arrays.pop(DOCUMENTS).tolist())
        tallies = {name: Tally() for name in facts["analyses"]}
        rankings: dict[str, Ranking] = {}
        for key in sorted(arrays):
            analysis, _, name = key.partition("/")
            if analysis == RANKED:
                kind, analysis, name = name.split("/", 2)
                ranking = rankings.setdefault(analysis, Ranking())
                vars(ranking)[kind][name] = arrays[key]
            elif analysis == RESTS:
                analysis, name = name.split("/", 1)
                tallies[analysis].rests[name] = arrays[key]
            else:
                tallies.setdefault(analysis, Tally()).totals[name] = arrays[key]
        counts = ExampleCounts(**facts["counts"])
        result = Result(tallies, counts, facts["seconds"], rankings, documents)
        return Checkpoint(result, tuple(facts["shards"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def read_arrays(path: Path, framework: str) -> tuple[dict[str, Any], Any]:
    """The arrays of a file and its facts, if they are those that were written."""
    try:
        with safe_open(path, framework=framework) as stream:
            metadata = stream.metadata()
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        facts = json.loads(metadata[FACTS])
        plain = {
            name: value if framework == "numpy" else value.numpy() for name, value in arrays.items()
        }
        if metadata.get(CHECKSUM, computed := _checksum(plain, metadata[FACTS])) != computed:
            raise ValueError("its checksum differs")
        return arrays, facts
    except DAMAGE as error:
        raise _damaged(path, error) from error


def describe_arrays(arrays: Mapping[str, Any], facts: Any) -> dict[str, str]:
    """The facts of a file, and a checksum of these and of all its numbers."""
    text = json.dumps(facts)
    return {FACTS: text, CHECKSUM: _checksum(arrays, text)}


def _checksum(arrays: Mapping[str, Any], facts: str) -> str:
    digest = sha256(facts.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _damaged(path: Path, error: Exception) -> OutputError:
    return OutputError(
        f"{path} is damaged ({shorten(str(error))}). Expected what the run kept there; remove the "
        "file to have it made again with --resume, or remove the folder and run the analysis again."
    )
