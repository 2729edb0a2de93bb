"""What a page asks, over a server or from a notebook's cell: read with care, and answered."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from headscope.errors import shorten
from headscope.explore.maps import Check
from headscope.explore.page import write_page
from headscope.explore.session import Request, Session

__all__ = ["MOST_BYTES", "QUESTIONS", "Answer", "read_question"]

Answer = Callable[[Session, Request, Check], bytes]

MOST_BYTES = 500_000  # of a question
FIELDS: dict[str, type] = {
    **dict.fromkeys(["text", "id", "weights", "head", "mode", "role"], str),
    **dict.fromkeys(["model", "place"], int),
    **dict.fromkeys(["heads", "panes"], list),
    "start": dict,
}


def _pack(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, allow_nan=False).encode()


QUESTIONS: Mapping[str, Answer] = {
    "look": lambda session, asked, check: _pack(session.look(asked, check)),
    "map": lambda session, asked, check: session.map(asked, check),
    "change": lambda session, asked, check: _pack(session.change(asked, check)),
    "spread": lambda session, asked, check: _pack(session.spread(asked, check)),
    "save": lambda session, asked, check: write_page(session, asked),
}


def read_question(body: bytes | str) -> dict[str, Any]:
    """The question, or a ValueError."""
    if len(body) > MOST_BYTES:
        raise ValueError(f"The text is too long. Expected at most {MOST_BYTES:,} bytes.")
    try:
        asked = json.loads(body)
    except RecursionError as error:
        raise ValueError("The question is nested too deeply.") from error
    return _check(asked)


def _check(asked: Any) -> dict[str, Any]:
    """The question without what is null, or a ValueError if a field has another type."""
    if not isinstance(asked, dict):
        raise ValueError("Expected an object.")
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        if name in FIELDS and type(value) is not FIELDS[name]:
            raise ValueError(
                f"{name} is {shorten(value)}. Expected {FIELDS[name].__name__}; change it."
            )
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "There is half a character (a lone surrogate). Expected whole ones; write it again."
        ) from error
    return (
        {**given, "panes": [_check(pane) for pane in given["panes"]]} if "panes" in given else given
    )
