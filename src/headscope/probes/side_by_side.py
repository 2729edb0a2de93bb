"""Independent work on all cores: for the small steps of probes one core is as fast as two."""

from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

import torch

__all__ = ["run_side_by_side"]

T = TypeVar("T")


def run_side_by_side(tasks: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """The result of each task, one core each; the error of the first that fails."""
    waiting = SimpleQueue[tuple[str, Callable[[], T]]]()
    for task in tasks.items():
        waiting.put(task)
    results, errors = dict[str, T](), list[BaseException]()

    def work() -> None:
        torch.set_num_threads(1)  # of this thread
        try:
            while not errors:
                name, task = waiting.get_nowait()
                results[name] = task()
        except Empty:
            pass
        except BaseException as error:
            errors.append(error)

    n_threads = min(torch.get_num_threads(), len(tasks))
    # Ctrl-C ends the program without waiting for daemons; what they learned so far is saved.
    threads = [Thread(target=work, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return {name: results[name] for name in tasks}
