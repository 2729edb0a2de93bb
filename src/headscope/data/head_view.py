"""What one head does with one example: enough to draw it, small enough to keep."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from headscope.errors import OutputError, shorten
from headscope.files import read_sealed, seal, write_atomically

__all__ = ["SHEET", "HeadView", "ShownExample", "read_examples", "write_examples"]

SHEET = "sheet"  # the end of an example that is drawn beside other heads on the same sentence
GAP = "…"  # stands for units that are left out
FAINT = 0.005  # weights below it are not kept: nobody would see their lines


@dataclass(frozen=True, eq=False)
class HeadView:
    """The attention of one head over one example, between tokens or between words."""

    example: str  # its id
    layer: int
    head: int
    units: tuple[str, ...]  # tokens, or words (with the special tokens that stand around them)
    is_special: tuple[bool, ...]
    weights: Float[NDArray[np.floating[Any]], "query key"]
    marked: tuple[tuple[int, int], ...] = ()  # pairs (from, to) to draw in red, as gold arcs are
    keys: tuple[str, ...] | None = None  # the units attended to, where they are others
    special_keys: tuple[bool, ...] | None = None
    kind: str = ""  # of the attention of an encoder-decoder

    @property
    def place(self) -> tuple[int, int]:
        """Layer and head, counted from 0."""
        return self.layer, self.head

    @property
    def key_units(self) -> tuple[str, ...]:
        """The units attended to."""
        return self.units if self.keys is None else self.keys

    @property
    def is_special_key(self) -> tuple[bool, ...]:
        return self.is_special if self.special_keys is None else self.special_keys

    def __post_init__(self) -> None:
        n_units, n_keys = len(self.units), len(self.key_units)
        sizes = (len(self.is_special), len(self.is_special_key))
        if self.weights.shape != (n_units, n_keys) or sizes != (n_units, n_keys):
            raise ValueError(
                f"A view of {n_units} units needs {n_units} rows and {n_keys} columns."
            )
        if any(not (0 <= start < n_units and 0 <= end < n_keys) for start, end in self.marked):
            raise ValueError("A marked pair lies outside the units.")

    def excerpt(self, n_units: int) -> "HeadView":
        """At most about `n_units` of a long example: special tokens, marked pairs and those near
        them, or the beginning where nothing is marked; a gap is a unit of its own.
        """
        if max(self.weights.shape) <= n_units:
            return self
        starts, ends = ({pair[side] for pair in self.marked} for side in (0, 1))
        if self.keys is None:
            starts = ends = starts | ends
        rows = _choose_units(self.is_special, starts, n_units)
        return self._take(rows, _choose_units(self.is_special_key, ends, n_units))

    def between(self, first: int, last: int) -> "HeadView":
        """The units from the first to the last, counted from 0, and no others."""
        kept = slice(first, last + 1)
        marked = [(a - first, b - first) for a, b in self.marked]
        n_units = last + 1 - first
        return replace(
            self,
            units=self.units[kept],
            is_special=self.is_special[kept],
            weights=self.weights[kept, kept],
            marked=tuple(p for p in marked if min(p) >= 0 and max(p) < n_units),
        )

    def strongest(self, n_weights: int) -> "HeadView":
        """The same with its largest weights alone."""
        if n_weights >= self.weights.size:
            return self
        least = np.sort(self.weights, axis=None)[-n_weights]
        return replace(self, weights=np.where(self.weights >= least, self.weights, 0.0))

    def _take(self, rows: Sequence[int], keys: Sequence[int]) -> "HeadView":
        """These units alone, with a gap wherever some between them are left out."""
        units, is_special, row_at = _add_gaps(rows, self.units, self.is_special)
        others, special_keys, key_at = _add_gaps(keys, self.key_units, self.is_special_key)
        weights = np.zeros((len(units), len(others)))
        weights[np.ix_([*row_at.values()], [*key_at.values()])] = self.weights[np.ix_(rows, keys)]
        marked = [(a, b) for a, b in self.marked if a in row_at and b in key_at]
        has_keys = self.keys is not None
        return replace(
            self,
            units=units,
            is_special=is_special,
            weights=weights,
            marked=tuple((row_at[start], key_at[end]) for start, end in marked),
            keys=others if has_keys else None,
            special_keys=special_keys if has_keys else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; the weights as [from, to, weight] in thousandths, faint ones left out."""
        rows, columns = np.nonzero(self.weights >= FAINT)
        kept = [
            [int(row), int(column), round(1000 * float(self.weights[row, column]))]
            for row, column in zip(rows, columns, strict=True)
        ]
        values = {name: value for name, value in vars(self).items() if value is not None}
        for name in {"is_special", "special_keys"} & values.keys():
            values[name] = [int(special) for special in values[name]]
        return {**values, "weights": kept}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "HeadView":
        """The view that `to_json` wrote, but for what it left out."""
        keys, special_keys = values.get("keys"), values.get("special_keys")
        weights = np.zeros((len(values["units"]), len(values["units"] if keys is None else keys)))
        for row, column, thousandths in values["weights"]:
            weights[row, column] = thousandths / 1000
        return HeadView(
            values["example"],
            values["layer"],
            values["head"],
            tuple(values["units"]),
            tuple(map(bool, values["is_special"])),
            weights,
            tuple((start, end) for start, end in values["marked"]),
            None if keys is None else tuple(keys),
            None if special_keys is None else tuple(map(bool, special_keys)),
            values.get("kind", ""),
        )


def _choose_units(is_special: Sequence[bool], marked: Collection[int], n_units: int) -> list[int]:
    """The special tokens, and the units nearest to those marked, or to the first."""
    near = np.array(sorted(marked)[:n_units] or [0])
    apart = np.abs(np.arange(len(is_special))[:, None] - near).min(axis=1)  # [unit]
    order = np.argsort(np.where(is_special, -1, apart), kind="stable")
    return sorted(order[:n_units].tolist())


def _add_gaps(
    kept: Sequence[int], units: Sequence[str], is_special: Sequence[bool]
) -> tuple[tuple[str, ...], tuple[bool, ...], dict[int, int]]:
    """The names of these units with a gap wherever some are left out; which are special tokens;
    and the new place of each."""
    slots: list[int | None] = []
    for before, unit in pairwise([-1, *kept, len(units)]):
        slots += [unit] if unit == before + 1 else [None, unit]
    slots.pop()
    names = tuple(GAP if unit is None else units[unit] for unit in slots)
    special = tuple(unit is not None and is_special[unit] for unit in slots)
    return names, special, {unit: slot for slot, unit in enumerate(slots) if unit is not None}


@dataclass(frozen=True, eq=False)
class ShownExample:
    """One head at one example: what for, at which end, and how well it did."""

    title: str  # what the head is shown for
    end: str  # "best", "worst" or "sheet"
    score: float  # a share of attention, or right answers minus wrong ones
    says: str
    view: HeadView

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "view": self.view.to_json()}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "ShownExample":
        """What `to_json` wrote."""
        return ShownExample(**{**values, "view": HeadView.from_json(values["view"])})


def write_examples(folder: Path, examples: Sequence[ShownExample]) -> None:
    """Keep the examples beside the tables."""
    content = {"format": 2, "examples": [example.to_json() for example in examples]}
    write_atomically(folder / "examples.json", seal(content, separators=(",", ":")))


def read_examples(folder: Path) -> list[ShownExample]:
    """The examples of a run; none where it kept none."""
    path = folder / "examples.json"
    if not path.exists():
        return []
    from headscope.data.schema import ExamplesFile, check_schema  # pydantic: only when it is read

    try:
        values = read_sealed(path)
        check_schema(ExamplesFile, values)
        return [ShownExample.from_json(value) for value in values["examples"]]
    except (OSError, ValueError, IndexError) as error:
        raise OutputError(
            f"{path} is damaged ({shorten(str(error))}). Expected the examples that the run kept; "
            "remove the file to continue without them, or rebuild it with `headscope analyze ... "
            "--resume`."
        ) from error
