"""Work on a Ray cluster: workers that hold a model each and take tasks; whatever dies is replaced.

The driver knows which task is where. A worker that dies gives its tasks back, a task that fails
three times is left out and told, and results may come in any order: sums are exact (`stats/exact`).
"""

import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import INFO, WARNING, StreamHandler, getLogger
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from headscope.errors import HeadscopeError, StudyError
from headscope.options import ClusterOptions

if TYPE_CHECKING:
    from headscope.engine.measure import Progress, Result
    from headscope.engine.sample import Shard

__all__ = ["Groups", "Pool", "Recipe", "find_ray", "measure_on_cluster", "open_pool"]

log = getLogger("headscope")

ATTEMPTS = 3  # of a task, before it is left out
AHEAD = 2  # tasks given to a worker at once: it need not wait for the driver
# Errors of code or data: the worker that met one is well. After any other it may be ill.
HARMLESS = (
    HeadscopeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
    AssertionError,
)  # fmt: skip
LOOK_SECONDS = 2.0  # between two looks at how large the cluster is
PATIENCE = 60.0  # seconds without a single worker before that is told
CONNECT_SECONDS = 5.0


class Recipe(Protocol):
    """What makes a worker; it is sent to the machine where the worker is to be."""

    def open(self) -> Any:
        """The worker: an object whose methods do the tasks."""

    def facts(self, worker: Any) -> Mapping[str, str]:
        """What must be the same for all workers and the driver."""


class Actor:
    """A process of the cluster with one worker."""

    def __init__(self, recipe: Recipe) -> None:
        talk = getLogger("headscope")  # Ray shows it in the user's terminal
        talk.addHandler(StreamHandler())
        talk.setLevel(INFO)
        self.recipe, self.worker = recipe, None

    def open(self) -> tuple[str, Mapping[str, str]]:
        """Load the model; says where this is, and the facts."""
        self.worker = self.recipe.open()
        return socket.gethostname(), self.recipe.facts(self.worker)

    def work(self, method: str, *arguments: Any) -> Any:
        return getattr(self.worker, method)(*arguments)


@dataclass(eq=False)
class Handle:
    """The driver's end of an actor, and the tasks that it was given, the first of which it does."""

    actor: Any
    tasks: deque[int] = field(default_factory=deque)
    is_ready: bool = False
    host: str = ""  # known when it is ready


@dataclass(eq=False)
class Pool:
    """The workers of a run."""

    ray: Any
    options: ClusterOptions
    recipe: Recipe
    facts: Mapping[str, str]  # the driver's own
    handles: list[Handle] = field(default_factory=list)
    # by what will come back: from whom, and the number of the task (None: it is ready)
    _pending: dict[Any, tuple[Handle, int | None]] = field(default_factory=dict)
    _next_look: float = 0.0
    _target: int = 0
    _n_lost: int = 0  # workers that died before they were ready, one after the other
    _since: float = field(default_factory=monotonic)  # since when no worker was ready

    def share(self, value: Any) -> Any:
        """A value as an argument of many tasks, sent to each machine once."""
        return self.ray.put(value)

    def run(
        self,
        method: str,
        take: Callable[[], tuple[Any, ...] | None],
        window: int | None = None,
        ahead: int = AHEAD,
    ) -> Iterator[tuple[int, Any]]:
        """The number of each task and its result, in whatever order; a string says why it failed.

        `take` gives the arguments of one task after the other, and None when there are no more for
        now. With a `window` results come in order, and so many at most wait for the one before.
        """
        tasks = _Tasks(method, take, ahead)
        kept: dict[int, Any] = {}
        n_given = 0
        self._look()
        while tasks.fill(self._target * tasks.ahead + 1):
            self._look()
            self._grow(tasks.n_open)
            self._give(tasks, None if window is None else n_given + window)
            for number, result in self._collect(tasks):
                if window is None:
                    yield number, result
                else:
                    kept[number] = result
            while n_given in kept:
                yield n_given, kept.pop(n_given)
                n_given += 1

    def close(self) -> None:
        """End all workers."""
        for handle in self.handles:
            self.ray.kill(handle.actor)
        self.handles.clear()
        self._pending.clear()

    def _look(self) -> None:
        """See now and then how many workers there can be: as many as were asked for, or fit."""
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + LOOK_SECONDS
            self._target = self.options.workers or max(1, self._count_fitting())

    def _grow(self, n_tasks: int) -> None:
        """Start the workers that are lacking."""
        while len(self.handles) < min(self._target, n_tasks):
            n_cpus = self.options.cpus_per_worker
            env = {name: str(n_cpus) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
            kind = self.ray.remote(Actor).options(
                num_cpus=n_cpus, num_gpus=self._gpus(), runtime_env={"env_vars": env}
            )
            handle = Handle(kind.remote(self.recipe))
            self.handles.append(handle)
            self._pending[handle.actor.open.remote()] = handle, None
        self._tell_if_none()

    def _gpus(self) -> float:
        if self.options.gpus_per_worker is not None:
            return self.options.gpus_per_worker
        return 1.0 if self.ray.cluster_resources().get("GPU", 0) else 0.0

    def _count_fitting(self) -> int:
        there, n_gpus = self.ray.cluster_resources(), self._gpus()
        fitting = there.get("CPU", 0) // self.options.cpus_per_worker
        return int(min(fitting, there.get("GPU", 0) // n_gpus) if n_gpus else fitting)

    def _tell_if_none(self) -> None:
        if any(handle.is_ready for handle in self.handles):
            self._since = monotonic()
        elif monotonic() - self._since > PATIENCE:
            self._since = monotonic()
            there = {n: v for n, v in self.ray.cluster_resources().items() if n in ("CPU", "GPU")}
            log.warning(
                "No worker has started for %d s. The cluster has %s; a worker takes %d CPUs and "
                "%g GPUs. Waiting for room.",
                PATIENCE,
                there or "no node",
                self.options.cpus_per_worker,
                self._gpus(),
            )

    def _give(self, tasks: "_Tasks", last: int | None) -> None:
        """Give tasks to workers that have few, each its first before any its second.

        Workers that are starting are to have a first one too.
        """
        n_starting = sum(not handle.is_ready for handle in self.handles)
        for n_tasks in range(1, tasks.ahead + 1):
            n_kept = n_starting if n_tasks > 1 else 0
            for handle in self.handles:
                n_waiting = len(tasks.waiting)
                if n_waiting <= n_kept or (last is not None and tasks.waiting[0] >= last):
                    return
                if handle.is_ready and len(handle.tasks) < n_tasks:
                    number = tasks.waiting.popleft()
                    handle.tasks.append(number)
                    done = handle.actor.work.remote(tasks.method, *tasks.arguments[number])
                    self._pending[done] = handle, number

    def _collect(self, tasks: "_Tasks") -> Iterator[tuple[int, Any]]:
        """What has come back by now."""
        done, _ = self.ray.wait(list(self._pending), timeout=LOOK_SECONDS / 2)
        for ref in done:
            handle, number = self._pending.pop(ref)
            failed: int | None
            try:
                value = self.ray.get(ref)
            except self.ray.exceptions.RayTaskError as error:
                if number is None:
                    raise _explain_opening(error) from None
                handle.tasks.remove(number)
                failed, reason = number, _reason(error, handle.host)
                cause = getattr(error, "cause", None)
                if isinstance(cause, self._full):
                    tasks.ahead = 1  # there is no room for two results of a worker
                elif not isinstance(cause, HARMLESS):
                    self._end(handle, tasks.waiting)
            except self.ray.exceptions.RayError as error:
                failed, reason = self._bury(handle, tasks.waiting), _reason(error, handle.host)
            else:
                if number is None:
                    self._check(handle, *value)
                else:
                    handle.tasks.remove(number)
                    yield tasks.finish(number), value
                continue
            if failed is not None and tasks.give_up(failed, reason):
                yield tasks.finish(failed), reason

    @property
    def _full(self) -> tuple[type[Exception], ...]:
        """Errors of a node that cannot keep a result: its memory for results and disk are full."""
        errors = self.ray.exceptions
        return errors.OutOfDiskError, errors.ObjectStoreFullError

    def _check(self, handle: Handle, host: str, facts: Mapping[str, str]) -> None:
        """A worker is given work only if it is what the driver is."""
        for name, own in self.facts.items():
            if facts.get(name) != own:
                raise StudyError(
                    f"The worker on {host} has a different {name}: {facts.get(name)}; the driver "
                    f"has {own}. Expected the same on every machine; install the same packages and "
                    f"use the same model everywhere."
                )
        handle.is_ready, handle.host, self._n_lost = True, host, 0

    def _bury(self, handle: Handle, waiting: deque[int]) -> int | None:
        """Take a dead worker's tasks back; gives the one that it was doing."""
        doing = handle.tasks.popleft() if handle.tasks else None
        self._end(handle, waiting)
        if not handle.is_ready:
            self._n_lost += 1
            if self._n_lost > ATTEMPTS * max(self._target, 1):
                raise StudyError(
                    f"{self._n_lost} workers died while loading the model. Expected enough memory "
                    f"for it; give each worker more: fewer --workers, or more --cpus-per-worker."
                )
        return doing

    def _end(self, handle: Handle, waiting: deque[int]) -> None:
        """End a worker, so that another one takes its place; its tasks wait again."""
        self.handles.remove(handle)
        self._pending = {ref: of for ref, of in self._pending.items() if of[0] is not handle}
        self.ray.kill(handle.actor)
        waiting.extendleft(reversed(handle.tasks))


@dataclass(eq=False)
class _Tasks:
    """The tasks of a run that are not done; only these are held."""

    method: str
    take: Callable[[], tuple[Any, ...] | None]
    ahead: int  # so many are given to a worker at once
    arguments: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by number
    waiting: deque[int] = field(default_factory=deque)
    failures: Counter[int] = field(default_factory=Counter)
    n_taken: int = 0

    @property
    def n_open(self) -> int:
        return len(self.arguments)

    def fill(self, n_tasks: int) -> bool:
        """Take tasks until so many wait; whether any is to be done still."""
        while len(self.waiting) < n_tasks and (arguments := self.take()) is not None:
            self.arguments[self.n_taken] = arguments
            self.waiting.append(self.n_taken)
            self.n_taken += 1
        return bool(self.arguments)

    def finish(self, number: int) -> int:
        """Let go of a task."""
        del self.arguments[number]
        return number

    def give_up(self, number: int, reason: str) -> bool:
        """Whether a task has failed too often; else it waits for its next attempt."""
        self.failures[number] += 1
        log.warning("A task failed (%d of %d): %s", self.failures[number], ATTEMPTS, reason)
        if self.failures[number] >= ATTEMPTS:
            return True
        self.waiting.appendleft(number)
        return False


def measure_on_cluster(
    pool: Pool, work: Any, shards: Sequence["Shard"], progress: "Progress"
) -> Iterator[tuple[Sequence["Shard"], "Result | str"]]:
    """Shards and their sums, in whatever order; a string says why they could not be measured."""
    shared, groups = pool.share(work), Groups(shards)

    def take() -> tuple[Any, ...] | None:
        group = groups.take()
        return group and (shared, group)

    for number, result in pool.run("measure", take):
        group = groups.taken.pop(number)
        if isinstance(result, str) and len(group) > 1:  # which of them it was
            groups.alone += group
            continue
        came = monotonic()
        yield group, result
        progress(sum(map(len, group)))
        if not isinstance(result, str):
            n_workers = sum(handle.is_ready for handle in pool.handles)
            measuring = sum(s for stage, s in result.seconds.items() if "within" not in stage)
            groups.learn(n_workers, len(group), monotonic() - came, measuring)


@dataclass(eq=False)
class Groups:
    """Shards in tasks: so many in each that the driver is busy adding at most half of the time.

    Sums over many heads are large (1,024 heads: 268 MB of distances). Workers then add those of
    several shards before they send them; the numbers are the same.
    """

    shards: Sequence["Shard"]
    alone: list["Shard"] = field(default_factory=list)  # what is to be tried one by one
    taken: dict[int, tuple["Shard", ...]] = field(default_factory=dict)  # by number of the task
    size: int = 1
    _next: int = 0
    _n_tasks: int = 0
    _n_results: int = 0
    _n_measured: int = 0
    _adding: float = 0.0  # seconds of the driver
    _measuring: float = 0.0  # seconds of all workers

    def take(self) -> tuple["Shard", ...] | None:
        if self.alone:
            group: tuple[Shard, ...] = (self.alone.pop(0),)
        else:
            group = tuple(self.shards[self._next : self._next + self.size])
            self._next += len(group)
        if not group:
            return None
        self.taken[self._n_tasks] = group
        self._n_tasks += 1
        return group

    def learn(self, n_workers: int, n_shards: int, adding: float, measuring: float) -> None:
        """See from the last result how long one takes to add, and a shard to measure."""
        self._n_results += 1
        self._n_measured += n_shards
        self._adding += adding
        self._measuring += measuring
        a_shard = self._measuring / self._n_measured
        wanted = 2 * n_workers * (self._adding / self._n_results) / max(a_shard, 1e-9)
        fair = (len(self.shards) - self._next) // max(n_workers, 1)  # smaller ones at the end
        self.size = max(1, round(min(wanted, max(wanted / 2, fair))))


@contextmanager
def open_pool(options: ClusterOptions, recipe: Recipe, facts: Mapping[str, str]) -> Iterator[Pool]:
    """Workers on the cluster for as long as the block runs; they end with it, however it ends."""
    ray, leave = _connect(options)
    pool = Pool(ray, options, recipe, facts)
    try:
        yield pool
    except ray.exceptions.RayError as error:  # what is no fault of one worker
        raise StudyError(
            f"The Ray cluster failed: {_reason(error)} Expected a head node that answers, and free "
            f"memory and disk on every node; check them, and repeat the command with --resume."
        ) from error
    finally:
        pool.close()
        leave()


def find_ray(options: ClusterOptions) -> Any:
    """The module of Ray; an error if it is not installed, or nothing listens at the address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray  # an extra: only where a cluster is asked for
    except ImportError as error:
        raise StudyError(
            "--ray was given, but the package ray is not installed. Expected the extra 'ray'; "
            "install it with `pip install 'headscope[ray]'`."
        ) from error
    address = str(options.ray)
    if address not in ("auto", "local") and not ray.is_initialized():
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if not (host and port.isdecimal()):
            raise _no_cluster(address, "it has no port")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from error
    return ray


def _connect(options: ClusterOptions) -> tuple[Any, Callable[[], None]]:
    """The module of Ray, connected, and how to leave the cluster."""
    ray = find_ray(options)
    if ray.is_initialized():  # by whoever called this
        return ray, lambda: None
    local: dict[str, Any] = {}
    if options.ray == "local":
        n_cpus = options.cpus_per_worker * (options.workers or 0) or os.cpu_count()
        local = {"num_cpus": n_cpus, "include_dashboard": False}
    try:
        ray.init(address=options.ray, logging_level=WARNING, log_to_driver=True, **local)
    except (OSError, ValueError, RuntimeError) as error:  # the last: another version of Ray there
        raise _no_cluster(str(options.ray), error) from error
    return ray, ray.shutdown


def _no_cluster(address: str, reason: object) -> StudyError:
    return StudyError(
        f"No Ray cluster can be used at --ray {address} ({' '.join(str(reason).split())[:200]}). "
        "Expected HOST:PORT of its head node, with the same Ray and Python as here, auto on a "
        "machine of the cluster, or local; start one with `ray start --head`."
    )


def _explain_opening(error: Any) -> HeadscopeError:
    """Why a worker could not be made, as the driver says it."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, HeadscopeError):
        return type(cause)(f"A worker cannot start: {cause.args[0]}")
    return StudyError(
        f"A worker cannot start: {_reason(error)}. Expected it to load the model and find the "
        f"corpora; see its messages above."
    )


def _reason(error: Any, host: str = "") -> str:
    """The last words of an error, and on which machine it came."""
    cause = getattr(error, "cause", None)
    text = f"{type(cause).__name__}: {cause}" if cause else f"{type(error).__name__}: {error}"
    where = f"on {host}: " if host else ""
    return where + " ".join(text.split())[:500]
