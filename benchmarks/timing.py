"""Times that can be compared: taken in turns, best of several."""

import sys
from collections.abc import Callable, Mapping
from time import perf_counter

__all__ = ["Parts", "Work", "best_seconds"]

Work = Callable[[], object]


class Parts(dict[str, float]):
    """Seconds by part; a work that returns them has its parts timed beside itself."""


def best_seconds(
    works: Mapping[str, Work], repeats: int, is_warm: bool = False
) -> dict[str, float]:
    """The shortest time of each work, and of each part it returns, over rounds A B C A B C ...

    Turns let a slow spell of the machine meet all works alike, and the best of several rounds
    drops it. One round before them warms up and is not counted; what `is_warm` needs none.
    """
    best: dict[str, float] = {}
    for turn in range(int(is_warm), 1 + repeats):
        seconds = {}
        for name, work in works.items():
            seconds.update(_time(name, work))
        if turn > 0:
            best = {name: min(s, best.get(name, s)) for name, s in seconds.items()}
        shown = ", ".join(f"{name} {seconds[name]:.2f} s" for name in works)
        print(f"    {'warm-up' if turn == 0 else f'round {turn}'}: {shown}", file=sys.stderr)
    return best


def _time(name: str, work: Work) -> dict[str, float]:
    start = perf_counter()
    given = work()
    seconds = perf_counter() - start
    return {name: seconds, **(given if isinstance(given, Parts) else {})}
