"""What a cell of a notebook shows: a picture, and the explorer in its place while it can run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING
from uuid import uuid4

from headscope.view.svg import Drawing

if TYPE_CHECKING:
    from headscope.explore.cell import Cell

__all__ = ["InteractiveDrawing", "can_show", "show_cell"]

# JupyterLab has an error below the picture where a saved notebook is opened without its kernel: a
# box without an element in it.
PICTURE = """<style>
.jp-OutputArea-child:has([data-headscope]) + .jp-OutputArea-child > .jupyter-widgets:not(:has(*)) {
  display: none;
}
</style>
<div data-headscope="KEY">PICTURE</div>"""


def can_show() -> bool:
    """Whether this is the kernel of a notebook, and has anywidget."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None and find_spec("anywidget") is not None


def show_cell(about: str, svg: str, make_cell: Callable[[], "Cell"]) -> None:
    """Show a picture, which a saved notebook keeps, then the widget, which hides it."""
    from IPython.display import display  # there is one, as this is a notebook

    key = uuid4().hex
    html = PICTURE.replace("KEY", key).replace("PICTURE", svg)
    display({"text/plain": about, "text/html": html, "image/svg+xml": svg}, raw=True)
    cell = make_cell()
    cell.key = key
    bundle, metadata = cell._repr_mimebundle_() or ({}, {})
    empty = {"text/plain": "", "text/html": ""}  # where there are no widgets, the picture is enough
    display({**bundle, **empty}, raw=True, metadata=metadata)


@dataclass(frozen=True)
class InteractiveDrawing(Drawing):
    """A drawing that a notebook shows as a page with all heads of the model on its text."""

    make_page: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    def _ipython_display_(self) -> None:
        show_cell(repr(self), self.svg, lambda: self._cell)

    def __reduce__(self) -> tuple[type[Drawing], tuple[str, int, int, str]]:
        return Drawing, (self.svg, self.width, self.height, self.title)  # the picture, no model

    @cached_property
    def _cell(self) -> "Cell":
        from headscope.explore.cell import Cell  # an extra: anywidget

        make_page = vars(self).pop("make_page")  # it holds the model, which is needed once
        return Cell(make_page())
