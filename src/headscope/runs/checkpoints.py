"""The sums of a pass so far in a file, and which shards they hold: what resuming adds to."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from headscope.data.account import Account
from headscope.data.ranking import Ranking
from headscope.data.tally import Tally
from headscope.errors import OutputError
from headscope.runs.engine import Result
from headscope.runs.files import write_atomically

__all__ = ["Checkpoint", "read_checkpoint", "write_checkpoint"]

RANKED = "ranked"  # begins the name of what is no sum in a file of sums


@dataclass(frozen=True)
class Checkpoint:
    """The sums over the shards of a pass that are done."""

    result: Result = field(default_factory=Result)
    shards: tuple[int, ...] = ()

    def with_shard(self, shard: int, result: Result) -> "Checkpoint":
        """This and one more shard."""
        return Checkpoint(self.result + result, (*self.shards, shard))


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Keep the sums, the rankings and the account, whole or not at all."""
    tensors = {
        f"{analysis}/{name}": total
        for analysis, tally in checkpoint.result.tallies.items()
        for name, total in tally.totals.items()
    }
    tensors |= dict(_name_rankings(checkpoint.result.rankings))
    state = {
        "shards": checkpoint.shards,
        "account": asdict(checkpoint.result.account),
        "seconds": checkpoint.result.seconds,
    }
    write_atomically(path, save(tensors, metadata={"state": json.dumps(state)}))


def read_checkpoint(path: Path) -> Checkpoint:
    """What was written, or an error that names the damaged file."""
    try:
        with safe_open(path, framework="numpy") as stream:
            state = json.loads(stream.metadata()["state"])
            totals = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"{path} is damaged ({error}). Expected the sums of a run; remove the folder and "
            "run the analysis again."
        ) from error
    rankings = _read_rankings(totals)
    tallies = dict(_group_by_analysis(totals))
    account = Account.from_json(state["account"])
    return Checkpoint(Result(tallies, account, state["seconds"], rankings), tuple(state["shards"]))


def _name_rankings(rankings: Mapping[str, Ranking]) -> Iterator[tuple[str, Any]]:
    for analysis, ranking in rankings.items():
        for role in ranking.ids:
            yield f"{RANKED}/ids/{analysis}/{role}", ranking.ids[role]
            yield f"{RANKED}/heights/{analysis}/{role}", ranking.heights[role]


def _read_rankings(totals: dict[str, Any]) -> dict[str, Ranking]:
    """Take the rankings out of all that a file of sums holds."""
    rankings: dict[str, Ranking] = {}
    for key in [key for key in totals if key.startswith(f"{RANKED}/")]:
        _, kind, analysis, role = key.split("/", 3)
        ranking = rankings.setdefault(analysis, Ranking())
        (ranking.ids if kind == "ids" else ranking.heights)[role] = totals.pop(key)
    return rankings


def _group_by_analysis(totals: Mapping[str, Any]) -> Iterator[tuple[str, Tally]]:
    for name, keys in groupby(sorted(totals), key=lambda key: key.partition("/")[0]):
        yield name, Tally({key.partition("/")[2]: totals[key] for key in keys})
