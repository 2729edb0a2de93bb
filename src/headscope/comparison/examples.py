"""Heads of several runs that do the same, drawn side by side, on one sentence where possible."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headscope.data.attention import head_name
from headscope.data.head_view import SHEET, ShownExample
from headscope.runs.run import Run
from headscope.stats.ranking import ENDS
from headscope.view.drawing import draw_head

__all__ = ["SideBySide", "draw_side_by_side"]

SHOWN = 6  # behaviours or relations


@dataclass(frozen=True)
class SideBySide:
    """What heads do, and the head of each run that does it most, on an example of the run."""

    title: str
    is_one_sentence: bool
    drawings: Sequence[tuple[str, str, str, Markup]]  # run, head, example, picture


def draw_side_by_side(runs: Mapping[str, Run]) -> list[SideBySide]:
    """What all runs have examples of, in the order of the first; what shares a sentence first."""
    paired = sorted(_pair(list(runs), [_group(run.examples) for run in runs.values()]))
    return [_draw(title, list(runs), examples) for *_, title, examples in paired[:SHOWN]]


def _group(examples: Sequence[ShownExample]) -> dict[str, list[ShownExample]]:
    """The examples by title, those of the sheet first, then the best; of one kind of attention."""
    groups: dict[str, list[ShownExample]] = {}
    order = (SHEET, *ENDS)  # that of a sheet is the same for all models
    for example in sorted(examples, key=lambda shown: order.index(shown.end)):
        if not example.view.kind:
            groups.setdefault(example.title, []).append(example)
    return groups


def _pair(
    runs: Sequence[str], groups: Sequence[Mapping[str, list[ShownExample]]]
) -> Iterator[tuple[bool, int, str, list[ShownExample]]]:
    """Each title that all runs have, with an example of each run: the same one if they share it."""
    first, *others = groups
    for number, (title, examples) in enumerate(first.items()):
        if not all(title in group for group in others):
            continue
        of_runs = [examples, *(group[title] for group in others)]
        by_id = [{shown.view.example: shown for shown in reversed(of_run)} for of_run in of_runs]
        shared = [
            shown.view.example
            for shown in of_runs[0]
            if all(shown.view.example in known for known in by_id)
        ]
        if shared:
            yield False, number, title, [known[shared[0]] for known in by_id]
        else:
            yield True, number, title, [of_run[0] for of_run in of_runs]


def _draw(title: str, runs: Sequence[str], examples: Sequence[ShownExample]) -> SideBySide:
    is_of_words = any(example.view.marked for example in examples)
    drawings = [
        (
            run,
            head_name(*example.view.place),
            example.view.example,
            Markup(draw_head(example.view, hide_special=is_of_words, title="").svg),
        )
        for run, example in zip(runs, examples, strict=True)
    ]
    return SideBySide(title, len({name for _, _, name, _ in drawings}) == 1, drawings)
