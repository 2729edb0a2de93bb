"""The explorer as a widget: the page in a frame, and its questions answered by the kernel.

The frame is an iframe with `srcdoc` and without its parent's origin. So ids and styles clash
neither with the notebook nor with the next cell, the page's content security policy holds, nothing
is fetched, and where notebooks are shown by cross-origin frames (VS Code, Colab) it works too,
which a frame of a blob or of another address need not.
"""

import json
from typing import Any

import anywidget
import traitlets

from headscope.errors import HeadscopeError
from headscope.explore.page import PAGE_FOLDER
from headscope.explore.questions import QUESTIONS, read_question
from headscope.explore.session import Session

__all__ = ["Cell"]


class Cell(anywidget.AnyWidget):
    """A page in a cell; one with a session can ask for more."""

    _esm = (PAGE_FOLDER / "widget.js").read_text()
    page = traitlets.Unicode().tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)  # of the picture that is hidden by it

    def __init__(self, page: str, session: Session | None = None) -> None:
        super().__init__(page=page)
        self._session = session
        self.on_msg(self._answer)

    def _answer(self, _: Any, asked: dict[str, Any], buffers: Any) -> None:
        """What the page asked, answered under its number with a status as of HTTP."""
        status, body = 500, b"{}"
        try:
            if self._session is not None:
                answer = QUESTIONS[asked["what"]]
                body = answer(self._session, read_question(asked["question"]), lambda: None)
                status = 200
        except (HeadscopeError, ValueError) as error:
            status, body = 422, json.dumps({"error": str(error)}).encode()
        finally:  # else the page would wait for ever
            self.send({"id": asked["id"], "status": status}, [body])
