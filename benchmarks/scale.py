"""What parts and clusters cost beside one process, and whether one driver keeps up with many."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.row import Row, Settings, at_least, at_most
from benchmarks.timing import best_seconds
from headscope.contracts import CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.engine.analyze import analyze
from headscope.engine.checkpoint import SavedSums
from headscope.engine.cluster import Pool, open_pool
from headscope.engine.measure import Result
from headscope.engine.merge import merge_runs
from headscope.engine.open_models import open_models
from headscope.engine.passes import Pass
from headscope.engine.plan import list_passes, plan
from headscope.engine.resolve import build_analysis
from headscope.engine.sample import Sample, Shard, draw_sample
from headscope.engine.work import Groups, Worker, measure_on_cluster, open_worker
from headscope.options import ClusterOptions, ModelOptions, RunOptions
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.sums import Tally

__all__ = ["run"]

SHARED = Path(__file__).parents[2] / "shared"
MODEL, TEXT = SHARED / "models" / "e5-small", SHARED / "data" / "text" / "enwiki.txt"
ANALYSES = ("position", "entropy")
N_SEGMENTS, N_PARTS = 2000, 4
N_WARM = 64  # segments, before the clock starts
N_HEADS = 1024
N_WORKERS, N_SHARDS, SHARD_SECONDS = 1000, 100_000, 30.0  # of the simulation


def run(settings: Settings) -> Iterator[Row]:
    """The driver first, as it needs no data; then runs, where the data is."""
    adding = time_adding(settings.repeats)
    yield Row("scale", f"adding a shard's distances of {N_HEADS} heads", 1000 * adding, "ms")
    simulated = simulate(adding)
    of = f"{N_WORKERS:,} workers, {N_SHARDS:,} shards of {SHARD_SECONDS:.0f} s, simulated"
    yield Row("scale", f"{of}: time over the ideal", simulated.over_ideal, "x", at_most(1.05))
    yield Row("scale", f"{of}: driver busy", 100 * simulated.busy, "%", at_most(100.0))
    yield Row("scale", f"{of}: most sums waiting", simulated.most_waiting, "results")
    if not MODEL.exists() or not TEXT.exists():
        return
    start = perf_counter()
    draw_sample(open_corpus(TEXT, CorpusRole.TEXT), None, 0)
    seconds = perf_counter() - start
    yield Row("scale", "the first reading of a corpus", TEXT.stat().st_size / 1e6 / seconds, "MB/s")
    yield from compare_clusters(settings)
    yield from compare_parts(settings)


def time_adding(repeats: int) -> float:
    """The seconds to add the sums of a shard to those of all: many pairs of heads."""
    pairs = N_HEADS * (N_HEADS - 1) // 2
    random = np.random.default_rng(0)
    shards = [Tally({"divergence": random.random((N_BUCKETS, pairs))}) for _ in range(2)]
    saved, best = SavedSums(None), float("inf")
    for number in range(repeats + 2):
        start = perf_counter()
        saved.add([number], Result({"distance": shards[number % 2]}))
        best = min(best, perf_counter() - start) if number > 1 else best
    return best


@dataclass(frozen=True)
class Simulated:
    """What a simulation of a cluster gave."""

    over_ideal: float  # its time over that of workers that never wait
    busy: float  # the share of the time that the driver adds
    most_waiting: float


def simulate(adding: float, seed: int = 0) -> Simulated:
    """Workers that measure and a driver that adds, in a time of their own."""
    random, shards = Random(seed), ((Shard(n, n, n + 1, 1), []) for n in range(N_SHARDS))
    groups = Groups(iter(shards), N_SHARDS)
    done: list[tuple[float, int, float]] = []  # when a worker finishes, the task, its seconds
    n_tasks, measuring = 0, 0.0

    def give(now: float) -> None:
        nonlocal n_tasks, measuring
        group = groups.take()
        if group is not None:
            seconds = sum(random.lognormvariate(0, 0.3) for _ in group) * SHARD_SECONDS
            heappush(done, (now + seconds, n_tasks, seconds))
            n_tasks, measuring = n_tasks + 1, measuring + seconds

    for _ in range(N_WORKERS):
        give(0.0)
    free = busy = 0.0  # when the driver is free again, and how long it added
    waiting: deque[float] = deque()  # when the results that wait will have been added
    most_waiting = 0
    while done:
        now, task, seconds = heappop(done)
        give(now)
        free, busy = max(free, now) + adding, busy + adding
        while waiting and waiting[0] <= now:
            waiting.popleft()
        waiting.append(free)
        most_waiting = max(most_waiting, len(waiting))
        groups.learn(N_WORKERS, len(groups.taken.pop(task)), adding, seconds)
    return Simulated(free / (measuring / N_WORKERS), busy / free, most_waiting)


def make_work(source: Any, loading: ModelOptions) -> tuple[Worker, Pass, Sample]:
    """The measuring of some segments of an encyclopedia, as `analyze` does it."""
    options = RunOptions(limit=N_SEGMENTS)
    corpus = open_corpus(TEXT, CorpusRole.TEXT)
    analyses = [build_analysis(name) for name in ANALYSES]
    passes, lacking = list_passes(analyses, [(CorpusRole.TEXT, corpus)], options, True)
    models = open_models(source, None, loading, options, [passes[0].watch])
    ((pass_,), _) = plan(passes, lacking, models, options, True)
    sample = draw_sample(corpus, N_SEGMENTS, 0).load_into_memory()
    return Worker(models, options), pass_, sample


def compare_clusters(settings: Settings) -> Iterator[Row]:
    """One process of two threads, and the same by Ray: workers are up before the clock starts."""
    loading = ModelOptions(device="cpu")
    worker, pass_, sample = make_work(str(MODEL), loading)
    shards = halve(sample.shards(N_SEGMENTS))
    warm = [Shard(number, 0, N_WARM, 1) for number in range(4)]  # each worker has one at least

    def plain(shards: Sequence[Shard] = shards) -> None:
        torch.set_num_threads(2)
        total = Result()
        for _, examples in sample.read(shards):
            total += worker.measure(pass_, None, [examples])

    def on_ray(pool: Pool, shards: Sequence[Shard] = shards) -> None:
        total = Result()
        examples = sample.read(shards)
        for _, result in measure_on_cluster(
            pool, pass_, None, examples, len(shards), lambda n: None
        ):
            assert isinstance(result, Result), result
            total += result

    def compare(pool: Pool) -> dict[str, float]:
        plain(warm)
        is_up = False
        while not is_up:
            is_up = bool(pool.handles) and all(handle.is_ready for handle in pool.handles)
            on_ray(pool, warm)
        works = {"plain": plain, "ray": partial(on_ray, pool)}
        return best_seconds(works, settings.repeats, is_warm=True)

    def open_workers(n_workers: int, n_threads: int) -> Any:
        options = ClusterOptions(ray="local", workers=n_workers, cpus_per_worker=n_threads)
        given = (n_threads, str(MODEL), None, loading, worker.options, (pass_.watch,))
        return open_pool(options, partial(open_worker, *given), worker.facts())

    with open_workers(1, 2) as pool:
        best = compare(pool)
    of = f"{N_SEGMENTS:,} segments, e5-small"
    name = f"{of}: Ray, one worker of two threads, over the plain run"
    yield Row("scale", name, best["ray"] / best["plain"], "x", at_most(1.05))
    with open_workers(2, 1) as pool:
        best = compare(pool)
    name = f"{of}: throughput of two workers of one thread over the plain run's"
    yield Row("scale", name, best["plain"] / best["ray"], "x", at_least(0.95))


def halve(shards: Sequence[Shard]) -> list[Shard]:
    """Shards of about equal length, as two workers would have in a long run."""
    start, stop = shards[0].start, shards[-1].stop
    middle = (start + stop) // 2
    return [replace(shards[0], start=start, stop=middle), Shard(1, middle, stop, 1)]


def compare_parts(settings: Settings) -> Iterator[Row]:
    """A run in parts, merged, over the same run in one."""
    worker, _, _ = make_work(str(MODEL), ModelOptions(device="cpu"))
    given = {
        "text": TEXT,
        "only": list(ANALYSES),
        "limit": N_SEGMENTS,
        "shard_examples": N_SEGMENTS // N_PARTS,
        "examples": False,
        "progress": False,
    }
    with TemporaryDirectory() as name:
        folder = Path(name)

        def whole() -> None:
            rmtree(folder / "whole", ignore_errors=True)
            analyze(worker.models.source, out=folder / "whole", **given)

        def parts() -> None:
            rmtree(folder / "parts", ignore_errors=True)
            rmtree(folder / "merged", ignore_errors=True)
            places = [folder / "parts" / str(number) for number in range(1, N_PARTS + 1)]
            for number, place in enumerate(places, start=1):
                analyze(worker.models.source, out=place, shard=f"{number}/{N_PARTS}", **given)
            merge_runs(places, folder / "merged")

        best = best_seconds({"whole": whole, "parts": parts}, settings.repeats, is_warm=True)
    name = f"{N_SEGMENTS:,} segments, e5-small: {N_PARTS} parts and their merging, over one run"
    yield Row("scale", name, best["parts"] / best["whole"], "x", at_most(1.02))
