"""Sessions of the embedded model for tests of the explorer, and its maps to compare with."""

import threading
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from numpy.typing import NDArray

from headscope.contracts import AttentionSource
from headscope.data.example import Example
from headscope.engine.open_models import Models, open_models
from headscope.explore.session import Session
from headscope.explore.texts import encode_text, list_examples
from headscope.options import ModelOptions, RunOptions
from headscope.runs.run import Run

if TYPE_CHECKING:
    from headscope.explore.server import LiveServer  # an extra

TEXT = "The keeper lit her lamp before the ships came home."


@cache
def demo_models() -> Models:
    return open_models("demo", None, ModelOptions(), RunOptions(), needs_head=True)


def make_session(run: Run | None = None, **start: str) -> Session:
    return Session([demo_models()], list_examples(()), run, {"text": TEXT, **start}, (TEXT,))


def true_map(
    text: str, layer: int, head: int, source: AttentionSource | None = None
) -> NDArray[float]:  # type: ignore[type-var]
    """A head's map as the model gives it: the embedded one, or another."""
    source = source or demo_models().source
    encoding, _ = encode_text(source, Example("the text", text=text))
    found = {}
    source.attend(source.batch([encoding]), lambda a: found.setdefault(a.layer, a.weights[0]))
    return found[layer][head].double().numpy()


def run_server(server: "LiveServer") -> Iterator["LiveServer"]:
    """The server while a test runs."""
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server._server.started:
        thread.join(0.05)
    yield server
    server.stop()
    thread.join()
