"""Work on a Ray cluster: workers that hold a model each, and are sent one task after the other.

Ray restarts a worker that dies, wherever there is room, and it loads the model again. Its task is
not bound to it (the room may be gone for good): the next free worker gets it. A task that fails
three times is left out and told. Results may come in any order: sums are exact (`stats/exact`).
"""

import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import INFO, WARNING, StreamHandler, getLogger
from time import monotonic
from typing import Any, NamedTuple

from headscope.errors import HeadscopeError, StudyError
from headscope.options import ClusterOptions

__all__ = ["Pool", "find_ray", "open_pool"]

log = getLogger("headscope")

ATTEMPTS = 3  # of a task, before it is left out; lives of a worker, before another replaces it
# Errors of code or data: they would come again, and the worker that met one is well.
HARMLESS = (
    HeadscopeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
    AssertionError,
)  # fmt: skip
LOOK_SECONDS = 2.0  # between two looks at how large the cluster is
PATIENCE = 60.0  # seconds without a single worker before that is told
CONNECT_SECONDS = 5.0

# Makes a worker on the machine where it is to be. The methods of the worker do the tasks, and
# `facts()` gives what must be the same for all workers and the driver.
Recipe = Callable[[], Any]


class Actor:
    """A process of the cluster with one worker."""

    def __init__(self, recipe: Recipe) -> None:
        messages = getLogger("headscope")  # Ray shows them in the user's terminal
        messages.addHandler(StreamHandler())
        messages.setLevel(INFO)
        self.recipe, self.worker = recipe, None  # type: Recipe, Any

    def open(self) -> tuple[str, Mapping[str, str]]:
        """Load the model, unless it is loaded; says where this is, and the facts."""
        self.worker = self.worker or self.recipe()
        return socket.gethostname(), self.worker.facts()

    def work(self, method: str, *arguments: Any) -> Any:
        return getattr(self.worker, method)(*arguments)


@dataclass(eq=False)
class Handle:
    """The driver's end of an actor."""

    actor: Any
    is_ready: bool = False
    host: str = ""  # known when it has been ready


class Failure(NamedTuple):
    """Why a task failed, and whether another attempt may succeed."""

    reason: str
    is_final: bool


@dataclass(eq=False)
class Pool:
    """The workers of a run."""

    ray: Any
    options: ClusterOptions
    recipe: Recipe
    facts: Mapping[str, str]  # the driver's own
    handles: list[Handle] = field(default_factory=list)
    # by what will come back: from whom, and the number of the task (None: it loads the model)
    _pending: dict[Any, tuple[Handle, int | None]] = field(default_factory=dict)
    _next_look: float = 0.0
    _n_wanted: int = 0  # workers
    _last_ready: float = field(default_factory=monotonic)  # when a worker was ready

    def share(self, value: Any) -> Any:
        """A value as an argument of tasks, kept by the object store."""
        return self.ray.put(value)

    def run(
        self,
        method: str,
        take: Callable[[], tuple[Any, ...] | None],
        window: int | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """The number of each task and its result, in whatever order; a string says why it failed.

        `take` gives the arguments of one task after the other, and None when there are no more for
        now. With a `window` results come in order, and so many at most wait for the one before.
        """
        tasks = _Tasks(take, window)
        while tasks.fill(self._look() + 1):
            while len(self.handles) < min(self._n_wanted, len(tasks.arguments)):
                self._start_worker()
            busy = {handle for handle, _ in self._pending.values()}
            for handle in self.handles:
                if tasks.waiting and handle.is_ready and handle not in busy:
                    number = tasks.waiting.popleft()
                    done = handle.actor.work.remote(method, *tasks.arguments[number])
                    self._pending[done] = handle, number
            yield from tasks.give()  # only now: the workers are busy while it is used
            for number, result in self._collect() if tasks.arguments else ():
                tasks.finish(number, result)

    def close(self) -> None:
        """End all workers."""
        for handle in self.handles:
            self.ray.kill(handle.actor)
        self.handles.clear()
        self._pending.clear()

    def _look(self) -> int:
        """How many workers there can be: as many as were asked for, or fit by now."""
        if monotonic() < self._next_look:
            return self._n_wanted
        self._next_look = monotonic() + LOOK_SECONDS
        resources, n_gpus = self.ray.cluster_resources(), self._n_gpus()
        n_fitting = resources.get("CPU", 0) // self.options.cpus_per_worker
        if n_gpus:
            n_fitting = min(n_fitting, resources.get("GPU", 0) // n_gpus)
        self._n_wanted = self.options.workers or max(1, int(n_fitting))
        if any(handle.is_ready for handle in self.handles):
            self._last_ready = monotonic()
        elif monotonic() - self._last_ready > PATIENCE:
            self._last_ready = monotonic()
            log.warning(
                "No worker has started for %d s. The cluster has %s; a worker takes %d CPUs and "
                "%g GPUs. Waiting for room.",
                PATIENCE,
                {n: v for n, v in resources.items() if n in ("CPU", "GPU")} or "no node",
                self.options.cpus_per_worker,
                n_gpus,
            )
        return self._n_wanted

    def _n_gpus(self) -> float:
        if self.options.gpus_per_worker is not None:
            return self.options.gpus_per_worker
        return 1.0 if self.ray.cluster_resources().get("GPU", 0) else 0.0

    def _start_worker(self) -> None:
        n_cpus = self.options.cpus_per_worker
        env = {name: str(n_cpus) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
        kind = self.ray.remote(Actor).options(
            num_cpus=n_cpus,
            num_gpus=self._n_gpus(),
            max_restarts=ATTEMPTS - 1,
            runtime_env={"env_vars": env},
        )
        self.handles.append(Handle(kind.remote(self.recipe)))
        self._open(self.handles[-1])

    def _open(self, handle: Handle) -> None:
        """Let a worker load the model, if need be in a process that Ray starts in its place."""
        handle.is_ready = False
        opened = handle.actor.open.options(max_task_retries=-1).remote()
        self._pending[opened] = handle, None

    def _collect(self) -> Iterator[tuple[int, Any]]:
        done, _ = self.ray.wait(list(self._pending), timeout=LOOK_SECONDS)
        for ref in done:
            handle, number = self._pending.pop(ref)
            try:
                value = self.ray.get(ref)
                if number is None:
                    self._check(handle, *value)
            except self.ray.exceptions.RayError as error:
                value = self._fail(handle, number, error)
            if number is not None:
                yield number, value

    def _fail(self, handle: Handle, number: int | None, error: Any) -> Failure:
        """Why a task failed; its worker is kept, restarted or given up."""
        errors, cause = self.ray.exceptions, getattr(error, "cause", error)
        if number is None and isinstance(error, errors.RayTaskError):
            if isinstance(cause, HeadscopeError):
                raise type(cause)(f"A worker cannot start: {cause.args[0]}") from None
            raise StudyError(
                f"A worker cannot start: {_reason(cause)}. Expected it to load the model; see its "
                "messages above."
            ) from None
        if isinstance(error, errors.RayTaskError):
            is_harmless = isinstance(cause, HARMLESS)
            if not is_harmless and not isinstance(cause, errors.RayError):  # it may be ill
                self.handles.remove(handle)  # another one takes its place
                self.ray.kill(handle.actor)
            return Failure(_reason(cause, handle.host), is_harmless)
        # The worker is lost, or what it sent.
        if number is not None:
            self._open(handle)
        elif handle.host:  # it died too often
            self.handles.remove(handle)
        else:
            raise StudyError(
                f"A worker died {ATTEMPTS} times while loading the model ({_reason(error)}). "
                "Expected enough memory for it; give each worker more: fewer --workers, or more "
                "--cpus-per-worker."
            ) from None
        return Failure(_reason(error, handle.host), False)

    def _check(self, handle: Handle, host: str, facts: Mapping[str, str]) -> None:
        """A worker is given work only if it is what the driver is."""
        for name, expected in self.facts.items():
            if facts.get(name) != expected:
                raise StudyError(
                    f"The worker on {host} has a different {name}: {facts.get(name)}; the driver "
                    f"has {expected}. Expected the same on every machine; install the same "
                    "packages and use the same model everywhere."
                )
        handle.is_ready, handle.host = True, host


@dataclass(eq=False)
class _Tasks:
    """The tasks of a run that are not done; only these are held."""

    take: Callable[[], tuple[Any, ...] | None]
    window: int | None
    arguments: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by number
    waiting: deque[int] = field(default_factory=deque)
    failures: Counter[int] = field(default_factory=Counter)
    results: dict[int, Any] = field(default_factory=dict)  # that are not given
    n_taken: int = 0
    n_given: int = 0

    def fill(self, n_tasks: int) -> bool:
        """Take tasks until so many are open; whether any is to be done or given still."""
        while len(self.arguments) < n_tasks:
            if self.window is not None and self.n_taken >= self.n_given + self.window:
                break
            if (arguments := self.take()) is None:
                break
            self.arguments[self.n_taken] = arguments
            self.waiting.append(self.n_taken)
            self.n_taken += 1
        return bool(self.arguments or self.results)

    def finish(self, number: int, result: Any) -> None:
        """Keep a result; what failed is tried again, unless it failed too often."""
        if isinstance(result, Failure):
            self.failures[number] += 1
            log.warning("A task failed: %s", result.reason)
            if not result.is_final and self.failures[number] < ATTEMPTS:
                self.waiting.appendleft(number)
                return
            result = result.reason
        del self.arguments[number]
        self.results[number] = result

    def give(self) -> Iterator[tuple[int, Any]]:
        """The results that are there; with a window only those without a gap before them."""
        for number in sorted(self.results):
            if self.window is None or number == self.n_given:
                self.n_given += 1
                yield number, self.results.pop(number)


@contextmanager
def open_pool(options: ClusterOptions, recipe: Recipe, facts: Mapping[str, str]) -> Iterator[Pool]:
    """Workers on the cluster for as long as the block runs; they end with it, however it ends."""
    ray, local = find_ray(options), {}
    is_ours = not ray.is_initialized()  # else by whoever called this
    if options.ray == "local":
        n_cpus = options.cpus_per_worker * (options.workers or 0) or os.cpu_count()
        local = {"num_cpus": n_cpus, "include_dashboard": False}
    try:
        if is_ours:
            ray.init(address=options.ray, logging_level=WARNING, log_to_driver=True, **local)
    except (OSError, ValueError, RuntimeError) as error:  # the last: another version of Ray there
        raise _no_cluster(str(options.ray), error) from error
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
        if is_ours:
            ray.shutdown()


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


def _no_cluster(address: str, reason: object) -> StudyError:
    return StudyError(
        f"No Ray cluster can be used at --ray {address} ({' '.join(str(reason).split())[:200]}). "
        "Expected HOST:PORT of its head node, with the same Ray and Python as here, auto on a "
        "machine of the cluster, or local; start one with `ray start --head`."
    )


def _reason(error: BaseException, host: str = "") -> str:
    """The last words of an error, and on which machine it came."""
    where = f"on {host}: " if host else ""
    return where + " ".join(f"{type(error).__name__}: {error}".split())[:500]
