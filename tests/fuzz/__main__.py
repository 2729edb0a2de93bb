"""The campaign (`make fuzz`): thousands of seeded cases, counted; see docs/results/reliability.md.

    python -m tests.fuzz [NUMBER OF CASES] [FIRST SEED]

Cases run in a process of their own, a chunk at a time, in 8 GB of memory. One that takes more than
20 seconds of computing is a hang, one that ends the process a crash.
"""

import logging
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import psutil
import torch

from tests.fuzz.commands import try_command
from tests.fuzz.corpora import ACCEPTED, REFUSED, Failure, try_corpus, try_folder
from tests.fuzz.runs import make_model, make_run, try_model, try_options, try_run

CHUNK = 500
LONGEST = 20  # seconds of computing
LONGEST_WAIT = 300  # seconds in all, on a busy machine
MEMORY = 8 << 30
TRACEBACK, HANG, LOSS, CRASH = "tracebacks", "hangs", "silent losses", "crashes"

Case = Callable[[Random, Path], str]


def list_kinds(good: Path) -> dict[str, tuple[Case, int]]:
    """What is tried, and how many of a hundred cases it has."""
    return {
        "corpus files": (try_corpus, 40),
        "corpus folders": (try_folder, 10),
        "run folders": (lambda rng, folder: try_run(rng, folder, good), 20),
        "options": (lambda rng, folder: try_options(rng, folder), 10),
        "command lines": (lambda rng, folder: try_command(rng, folder, good), 10),
        "model folders": (lambda rng, folder: try_model(rng, folder, good), 10),
    }


def make_good(good: Path) -> None:
    """The run and the model that are damaged."""
    make_run(good)
    make_model(good)


def choose(kinds: dict[str, tuple[Case, int]], seed: int) -> str:
    return Random(f"kind {seed}").choices(list(kinds), [share for _, share in kinds.values()])[0]


def run_case(case: Case, seed: int) -> tuple[str, str]:
    """The outcome of a case, and what is said of a failure."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return case(Random(seed), Path(folder)), ""
        except Failure as error:
            return LOSS, str(error)
        except Exception as error:  # what a user would see as a traceback
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {str(error)[:200]} ({place.filename}:{place.lineno})"
            return TRACEBACK, said


def work(seeds: list[int], kinds: dict[str, tuple[Case, int]], pipe: Connection) -> None:
    """Run these cases, and tell the outcome of each."""
    # not RLIMIT_AS: V8, which draws figures, reserves more addresses than it ever uses
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # bars and notes of libraries
    for seed in seeds:
        pipe.send((seed, *run_case(kinds[choose(kinds, seed)][0], seed)))
    pipe.close()


def watch(seeds: list[int], kinds: dict[str, tuple[Case, int]]) -> list[tuple[int, str, str]]:
    """The outcomes of some cases; after a hang or a crash it goes on with the next one."""
    done: list[tuple[int, str, str]] = []
    while len(done) < len(seeds):
        left = seeds[len(done) :]
        ours, theirs = get_context("fork").Pipe()
        worker = get_context("fork").Process(target=work, args=(left, kinds, theirs))
        worker.start()
        theirs.close()
        while len(done) < len(seeds):
            try:
                done.append((seeds[len(done)], HANG, "") if _hangs(worker, ours) else ours.recv())
            except EOFError:  # the process ended
                done.append((seeds[len(done)], CRASH, ""))
            if done[-1][1] in (HANG, CRASH):
                break
        worker.kill()
        worker.join()
    return done


def _hangs(worker: Any, pipe: Connection) -> bool:
    """Wait for the next outcome; whether it takes too long."""
    began, used = time.monotonic(), _seconds(worker.pid)
    while not pipe.poll(0.2):
        if _seconds(worker.pid) - used > LONGEST or time.monotonic() - began > LONGEST_WAIT:
            return True
    return False


def _seconds(process: int) -> float:
    try:
        times = psutil.Process(process).cpu_times()
        return float(times.user + times.system)
    except psutil.Error:
        return 0.0


def main(n_cases: int = 10_000, first: int = 0) -> int:
    """Run the campaign and print its table; the exit code says whether anything failed."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    outcomes: dict[str, Counter[str]] = {}
    failures: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        good = Path(place)
        kinds = list_kinds(good)
        maker = get_context("fork").Process(target=make_good, args=(good,))
        maker.start()  # in a process of its own: what has threads cannot be forked
        maker.join()
        for start in range(first, first + n_cases, CHUNK):
            seeds = list(range(start, min(start + CHUNK, first + n_cases)))
            for seed, outcome, said in watch(seeds, kinds):
                kind = choose(kinds, seed)
                outcomes.setdefault(kind, Counter())[outcome] += 1
                if outcome not in (ACCEPTED, REFUSED):
                    failures.append(f"seed {seed}, {kind}: {outcome} {said}")
                    print(failures[-1], file=sys.stderr, flush=True)
            print(f"{seeds[-1] + 1 - first:,} of {n_cases:,} cases", file=sys.stderr, flush=True)
    columns = (ACCEPTED, REFUSED, TRACEBACK, HANG, LOSS, CRASH)
    print(f"| bad input | cases | {' | '.join(columns)} |")
    print(f"|---|{'---:|' * (len(columns) + 1)}")
    total: Counter[str] = sum(outcomes.values(), Counter())
    for kind, counts in [*outcomes.items(), ("all", total)]:
        cells = [f"{counts.total():,}", *(f"{counts[column]:,}" for column in columns)]
        print(f"| {kind} | {' | '.join(cells)} |")
    print(f"Seeds {first} to {first + n_cases - 1}, {time.monotonic() - began:.0f} s.")
    return int(bool(failures))


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.exit(main(*map(int, sys.argv[1:])))
