"""What notebooks show: the explorer where widgets can run, a picture elsewhere."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headscope.view.svg import Drawing

if TYPE_CHECKING:
    from headscope.explore.cell import Cell

__all__ = ["InteractiveDrawing", "can_show", "show_cell"]


def can_show() -> bool:
    """Whether this is the kernel of a notebook, and has anywidget."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None and find_spec("anywidget") is not None


@dataclass(frozen=True)
class InteractiveDrawing(Drawing):
    """A drawing that a notebook shows as a page with all heads of the model on its text."""

    make_page: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return show_cell(self._cell)

    def __reduce__(self) -> Any:  # a copy is the picture: no model is pickled with it
        return Drawing, (self.svg, self.width, self.height, self.title)

    @cached_property
    def _cell(self) -> "Cell":
        from headscope.explore.cell import Cell  # an extra: anywidget

        make_page = vars(self).pop("make_page")  # it holds the model, which is needed once
        return Cell(make_page())


def show_cell(cell: "Cell") -> tuple[dict[str, Any], dict[str, Any]]:
    """The widget alone, with what Colab must know; IPython adds the picture and the name."""
    bundle, about = cell._repr_mimebundle_() or ({}, {})
    return {kind: value for kind, value in bundle.items() if kind != "text/plain"}, about
