"""Progress on stderr: a bar for every stage, how far, how fast, how long still."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich import progress as rich
from rich.console import Console
from rich.text import Text

from headscope.engine.measure import Progress as Advance

__all__ = ["Bars", "show_progress"]


class RateColumn(rich.ProgressColumn):
    """What is done in a second: sentences, documents, examples."""

    def render(self, task: rich.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f} {task.fields['unit']}/s" if speed else "")


@dataclass(frozen=True)
class Bars:
    """The bars of a run, one below the other."""

    progress: rich.Progress
    tasks: dict[str, rich.TaskID] = field(default_factory=dict)

    def add(self, name: str, total: int | None, unit: str = "examples") -> Advance:
        """A bar of so many steps; what comes back moves it on."""
        task = self.progress.add_task(name, total=total, start=False, note="", unit=unit)
        self.tasks[name] = task

        def advance(n_steps: int) -> None:
            self.progress.start_task(task)  # its clock runs from its first news; later: no effect
            self.progress.advance(task, n_steps)

        return advance

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A bar for a stage that cannot be counted; full when it is done, gone when it fails."""
        task = self.progress.add_task(name, total=None, note="", unit="")
        try:
            yield
        except BaseException:
            self.progress.remove_task(task)
            raise
        self.progress.update(task, total=1, completed=1)

    def report(self, name: str, n_done: int, total: int | None, note: str) -> None:
        """Set a bar, made when it is first heard of, with a note beside it."""
        if name not in self.tasks:
            self.add(name, total, "steps")
            self.progress.start_task(self.tasks[name])
        self.progress.update(self.tasks[name], completed=n_done, note=note)


@contextmanager
def show_progress(is_shown: bool) -> Iterator[Bars]:
    """Bars while a block runs."""
    counted = (
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        RateColumn(),
        rich.TimeRemainingColumn(),
    )
    columns = ("{task.description}", *counted, "{task.fields[note]}")
    with rich.Progress(*columns, console=Console(stderr=True), disable=not is_shown) as progress:
        yield Bars(progress)
