"""Kill runs, drivers, workers and nodes at random; the tables must always be the same bytes.

    python -m benchmarks.faults                       # all: some minutes
    python -m benchmarks.faults plain --kills 100     # the plain run alone

Runs on this machine: the cluster has two nodes of one CPU (`ray.cluster_utils.Cluster`).
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch

from headscope.engine.analyze import analyze

STUDY: dict[str, Any] = {
    "text": "starter",
    "only": ["position", "entropy", "distance"],
    "shard_examples": 2,
    "examples": False,
    "progress": False,
}
CHILD = "import headscope, json, sys; headscope.analyze('demo', **json.loads(sys.argv[1]))"
MOST_WORKERS = 2  # harmed in one run: a shard that loses three is left out
MOST_ROUNDS = 1000  # of one run that is killed again and again


def main() -> None:
    """Say of each kind of fault how often it came, and whether all tables were the same."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="default: all")
    parser.add_argument("--kills", type=int, default=100, help="of the plain run (default 100)")
    parser.add_argument("--drivers", type=int, default=20, help="of drivers (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # as workers of one CPU: other threads, other last digits
    with TemporaryDirectory() as name:
        folder = Path(name)
        start = time.monotonic()
        run_and_kill(folder / "whole", None, {})  # this process must not use threads: it forks
        seconds = time.monotonic() - start
        whole = read_tables(folder / "whole")
        for kind in options.kinds or KINDS:
            said = KINDS[kind](folder / kind, whole, seconds, options)
            print(f"{kind}: {said}", flush=True)


def read_tables(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "tables").iterdir()}


def kill_plain(folder: Path, whole: dict[str, bytes], seconds: float, options: Any) -> str:
    return kill_again_and_again(folder, whole, options.kills, seconds / 4, options.seed, {})


def kill_drivers(folder: Path, whole: dict[str, bytes], seconds: float, options: Any) -> str:
    with two_nodes() as cluster:
        study = {"ray": cluster.address}
        return kill_again_and_again(
            folder, whole, options.drivers, 20 + 2 * seconds, options.seed, study
        )


def kill_again_and_again(
    folder: Path, whole: dict[str, bytes], n_kills: int, longest: float, seed: int, study: Any
) -> str:
    """Kill a run at random moments until it is done; another one, until there were enough kills."""
    random, n_killed, n_runs = Random(seed), 0, 0
    while n_killed < n_kills:
        out, n_runs = folder / str(n_runs), n_runs + 1
        for _ in range(MOST_ROUNDS):
            is_last = n_killed >= n_kills
            if not run_and_kill(out, None if is_last else random.uniform(0, longest), study):
                break
            n_killed += 1
        assert read_tables(out) == whole, f"{out}: other tables"
    return f"{n_killed} kills of {n_runs} runs, tables equal"


def run_and_kill(out: Path, after: float | None, study: Any) -> bool:
    """Resume a run in a process of its own; whether it was killed before it was done."""
    child = start_run(out, study)
    ends = time.monotonic() + (after if after is not None else 3600)
    while time.monotonic() < ends:
        if is_done(child):
            return False
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) != 0


def start_run(out: Path, study: Any) -> int:
    """A process that runs the study. A plain one is forked: what is imported is there already.

    Where a cluster runs in this process, a fork of it would hang, so that a new one is started.
    """
    if study:
        given = json.dumps({"out": str(out), "resume": True, **STUDY, **study})
        return os.posix_spawn(sys.executable, [sys.executable, "-c", CHILD, given], os.environ)
    child = os.fork()
    if child == 0:
        try:
            analyze("demo", out=out, resume=True, **STUDY)
            os._exit(0)
        except BaseException as error:
            print(f"failed: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return child


def is_done(child: int) -> bool:
    pid, status = os.waitpid(child, os.WNOHANG)
    assert not pid or os.waitstatus_to_exitcode(status) == 0, "a run failed"
    return bool(pid)


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes on this machine."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def kill_workers(folder: Path, whole: dict[str, bytes], seconds: float, options: Any) -> str:
    """Workers die in the middle of a shard."""
    return f"{harm_workers(folder, whole, psutil.Process.kill)} workers killed, tables equal"


def starve_workers(folder: Path, whole: dict[str, bytes], seconds: float, options: Any) -> str:
    """Workers can have no more memory, from the middle of a shard on."""

    def starve(worker: psutil.Process) -> None:
        most = worker.memory_info().vms
        worker.rlimit(psutil.RLIMIT_AS, (most, most))

    return f"{harm_workers(folder, whole, starve)} workers out of memory, tables equal"


def harm_workers(
    folder: Path, whole: dict[str, bytes], harm: Callable[[psutil.Process], None]
) -> int:
    """How many workers were harmed while they measured."""
    n_harmed = 0
    with two_nodes() as cluster:
        child = start_run(folder, {"ray": cluster.address})
        while not is_done(child):
            time.sleep(0.5)
            busy = find_busy_workers()
            if busy and n_harmed < MOST_WORKERS:
                harm(busy[0])
                n_harmed += 1
    assert n_harmed, "no worker was harmed: the run was too short"
    check(folder, whole)
    return n_harmed


def change_nodes(folder: Path, whole: dict[str, bytes], seconds: float, options: Any) -> str:
    """A node is added while the run goes on, and a node is removed with its worker."""
    said: list[str] = []
    with two_nodes() as cluster:
        second = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
        child = start_run(folder, {"ray": cluster.address})
        while not is_done(child):
            time.sleep(0.5)
            n_busy = len(find_busy_workers())
            if n_busy and not said:
                cluster.add_node(num_cpus=1)
                said.append("one node added")
            elif n_busy > 1 and len(said) == 1:
                cluster.remove_node(second, allow_graceful=False)
                said.append("one removed")
    assert len(said) == 2, f"the run was over too soon: {said}"
    check(folder, whole)
    return f"{', '.join(said)}, tables equal"


def find_busy_workers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if is_at_work(p)]


def is_at_work(process: psutil.Process) -> bool:
    try:
        return "ray::Actor.work" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def check(folder: Path, whole: dict[str, bytes]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] == "complete", manifest.get("failed")
    assert read_tables(folder) == whole, "other tables"


KINDS: dict[str, Callable[[Path, dict[str, bytes], float, Any], str]] = {
    "plain": kill_plain,
    "workers": kill_workers,
    "memory": starve_workers,
    "nodes": change_nodes,
    "drivers": kill_drivers,
}


if __name__ == "__main__":
    main()
