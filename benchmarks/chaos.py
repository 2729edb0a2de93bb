"""Faults while a run works (`make chaos`): kill -9, full disks, flipped bits; counted.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python -m benchmarks.chaos [KILLS] [DISKS] [FLIPS] [SEED]

(With a pool of native threads a child that is forked may wait for ever, or be ended. So this
process measures nothing itself.)

A small real model is measured over and over. A run that was killed, or met a full disk, is resumed,
and must give the very tables of a run that was left alone; a file with a flipped bit must be
refused, or be read as it was. The tables stand in docs/results/reliability.md.
"""

import errno
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import psutil
import torch
from tests.fuzz.runs import make_model
from tests.making import make_example

from headscope import files
from headscope.engine.analyze import analyze
from headscope.engine.checkpoint import read_checkpoint
from headscope.errors import HeadscopeError, WriteError
from headscope.models.load import load_model
from headscope.runs.run import load_run

EXAMPLES = [make_example(seed, n_words=5 + seed % 7) for seed in range(16)]
SAME, OTHER, REFUSED = "same tables after --resume", "other tables", "refused"
STATUS_FULL = 3  # how a child ends that met a full disk and said so


def study(model: Any, folder: Path, resume: bool = False, is_large: bool = False) -> None:
    """The run that is disturbed: a pass of eight shards and a table; or more, with examples."""
    options: dict[str, Any] = {"only": "position", "shard_examples": 2, "progress": False}
    if is_large:
        options |= {"only": "position,entropy,dependency", "treebank": EXAMPLES}
    analyze(
        model, text=EXAMPLES, out=folder, resume=resume, max_tokens=40, examples=is_large, **options
    )


def in_child(work: Callable[[], None], seconds: float | None = None) -> int:
    """Do this in a process of its own, killed after so many seconds of computing; its exit code."""

    def run() -> None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            work()
        except WriteError:
            os._exit(STATUS_FULL)

    child = get_context("fork").Process(target=run)
    child.start()
    while seconds is not None and child.is_alive():
        with suppress(psutil.Error):
            times = psutil.Process(child.pid).cpu_times()
            if child.pid and times.user + times.system > seconds:
                os.kill(child.pid, signal.SIGKILL)
                break
        time.sleep(0.005)
    child.join()
    return child.exitcode or 0


def content(folder: Path) -> dict[str, Any]:
    """All that a run found: its tables, byte by byte, and its sums."""
    found: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("tables/*")
    }
    for path in folder.glob("tallies/*"):
        found[path.name] = repr(read_checkpoint(path).result.tallies)
    return found


def judge(model: Any, folder: Path, expected: dict[str, Any]) -> str:
    """Resume the run, and compare it with one that was left alone."""
    if code := in_child(lambda: study(model, folder, resume=True)):
        return f"not resumed (exit code {code})"
    load_run(folder)
    left = [path for path in folder.rglob(".*") if files.TEMPORARY.fullmatch(path.name)]
    if left:
        return "temporary files left"
    return SAME if content(folder) == expected else OTHER


def kill(
    model: Any, place: Path, expected: dict[str, Any], n: int, seconds: float, rng: Random
) -> Counter[str]:
    """Kill runs at random moments, some of them twice."""
    outcomes: Counter[str] = Counter()
    for number in range(n):
        folder = place / f"kill-{number}"
        for resume in [False, True][: rng.randint(1, 2)]:
            is_there = (folder / "manifest.json").exists()
            code = in_child(
                lambda again=resume and is_there, at=folder: study(model, at, again),
                rng.uniform(0, seconds),
            )
            outcomes["(killed before the end)"] += code == -signal.SIGKILL
            if code not in (0, -signal.SIGKILL):
                outcomes[f"ended by itself (exit code {code})"] += 1
        outcomes[judge(model, folder, expected)] += 1
        shutil.rmtree(folder)
        print(f"kill {number + 1} of {n}: {dict(outcomes)}", file=sys.stderr, flush=True)
    return outcomes


def count_writes(model: Any, place: Path) -> int:
    """How many files a run writes."""
    n_written = get_context("fork").Value("i", 0)

    def work() -> None:
        fsync = os.fsync

        def counted(descriptor: int) -> None:
            n_written.value += 1
            fsync(descriptor)

        os.fsync = counted
        study(model, place / "counted")

    in_child(work)
    return int(n_written.value)


def fill_disk(
    model: Any, place: Path, expected: dict[str, Any], n: int, n_writes: int
) -> Counter[str]:
    """Let the disk be full at the k-th file, for places spread over the whole run."""
    outcomes: Counter[str] = Counter()
    for number in range(n):
        last, folder = 1 + number * n_writes // n, place / f"full-{number}"

        def work(last: int = last, folder: Path = folder) -> None:
            left = [last]

            def full(descriptor: int) -> None:
                left[0] -= 1
                if left[0] <= 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            os.fsync = full
            study(model, folder)

        is_told = in_child(work) == STATUS_FULL
        outcomes["(one-line error)" if is_told else "no one-line error"] += 1
        outcomes[judge(model, folder, expected)] += 1
        shutil.rmtree(folder)
    return outcomes


def read_all(folder: Path) -> Any:
    """All that is read of a run: its manifest, tables, examples and sums."""
    run = load_run(folder)
    tables = [{name: table.to_csv() for name, table in run.tables.items()}]
    tables += [{name: table.to_csv() for name, table in run.untrained.items()}]
    sums = {p.name: repr(read_checkpoint(p).result.tallies) for p in folder.glob("tallies/*")}
    return run.manifest, tables, repr(run.examples), sums


def flip_bits(place: Path, good: Path, n: int, rng: Random) -> dict[str, Counter[str]]:
    """Flip single bits in every file of a run that is read again; what is read then?"""
    expected = read_all(good)
    outcomes: dict[str, Counter[str]] = {}
    for path in sorted(p for p in good.rglob("*") if p.is_file() and p.suffix != ".csv"):
        kind = path.suffix if path.suffix != ".json" else path.name
        for _ in range(n):
            folder = place / "flipped"
            shutil.copytree(good, folder)
            raw = bytearray((folder / path.relative_to(good)).read_bytes())
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            (folder / path.relative_to(good)).write_bytes(bytes(raw))
            try:
                outcome = "read as it was" if read_all(folder) == expected else OTHER
            except HeadscopeError:
                outcome = REFUSED
            except Exception as error:
                outcome = f"traceback: {error!r:.80}"
            outcomes.setdefault(kind, Counter())[outcome] += 1
            shutil.rmtree(folder)
    return outcomes


def main(n_kills: int = 100, n_full: int = 20, n_flips: int = 5, seed: int = 0) -> int:
    """All faults, and their table; the exit code says whether a number was wrong."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        model = load_model(make_model(place))
        in_child(lambda: study(model, place / "first"))  # compiles what must be compiled
        began = sum(os.times()[2:4])  # of children
        in_child(lambda: study(model, place / "good"))
        seconds = sum(os.times()[2:4]) - began
        expected = content(place / "good")
        n_writes = count_writes(model, place)
        rows = {
            "kill -9": kill(model, place, expected, n_kills, seconds, Random(seed)),
            "disk full": fill_disk(model, place, expected, n_full, n_writes),
        }
        in_child(lambda: study(model, place / "whole", is_large=True))
        flips = flip_bits(place, place / "whole", n_flips, Random(seed))
        rows |= {f"a flipped bit in {kind}": counts for kind, counts in flips.items()}
    print("| fault | cases | result |\n|---|---:|---|")
    for fault, counts in rows.items():
        n = sum(count for outcome, count in counts.items() if not outcome.startswith("("))
        said = "; ".join(f"{count} {outcome}" for outcome, count in counts.items())
        print(f"| {fault} | {n} | {said} |")
    fine = (SAME, REFUSED, "read as it was")
    bad = [o for counts in rows.values() for o in counts if o not in fine and o[0] != "("]
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
