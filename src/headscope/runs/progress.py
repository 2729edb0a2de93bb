"""Progress on stderr: how far, how fast, how long still."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from headscope.runs.engine import Progress as Advance

__all__ = ["show_progress"]


class RateColumn(ProgressColumn):
    """Examples per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "-/s")


@contextmanager
def show_progress(totals: Mapping[str, int], is_shown: bool) -> Iterator[dict[str, Advance]]:
    """A bar per pass; what is yielded moves them on."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not is_shown) as progress:
        tasks = {
            key: progress.add_task(key, total=total, start=False) for key, total in totals.items()
        }

        def advance(task: TaskID, n_examples: int) -> None:
            progress.start_task(task)  # a pass's clock runs from its first news; later: no effect
            progress.advance(task, n_examples)

        yield {key: partial(advance, task) for key, task in tasks.items()}
