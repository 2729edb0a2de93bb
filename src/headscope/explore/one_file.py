"""The page as one file: texts, maps and the run's facts inside; it needs no server."""

from collections.abc import Mapping, Sequence
from typing import Any

from headscope.errors import StudyError
from headscope.explore.pack import pack_maps
from headscope.explore.page import whole_page
from headscope.explore.session import Session, thumbs_values
from headscope.explore.texts import describe_tokens

__all__ = ["render_page", "write_page"]

MOST_TEXTS = 50


def write_page(session: Session, request: Mapping[str, Any]) -> bytes:
    """What the page asked to save: the texts it shows, and the view of them."""
    panes, start = request.get("panes"), request.get("start")
    if not isinstance(panes, list) or not all(isinstance(pane, dict) for pane in panes):
        raise StudyError("There is no text to save. Expected one or more; open a text first.")
    kept = {str(k): str(v) for k, v in start.items()} if isinstance(start, dict) else {}
    kept["weights"] = "attention"  # norms need the model
    return render_page(session, panes, kept).encode()


def render_page(
    session: Session, panes: Sequence[Mapping[str, Any]], start: Mapping[str, str]
) -> str:
    """The page of these texts, which shows what `start` says first."""
    if len(panes) > MOST_TEXTS:
        raise StudyError(
            f"{len(panes)} texts were given. Expected at most {MOST_TEXTS} in one file; take fewer."
        )
    texts, layers = [], {}
    for number, pane in enumerate(panes):
        source, encoding, n_whole = session.encode(pane)
        packed = pack_maps(source, encoding)
        for layer, piece in enumerate(packed.layers):
            layers[f"layer-{number}-{layer}"] = piece
        texts.append(
            {
                **describe_tokens(encoding, n_whole),
                **thumbs_values(packed.thumbs),
                "precision": packed.precision,
                "form": packed.form,
                "shape": packed.shape,
                "number": number,
                "model": pane.get("model", 0),
                "text": encoding.example.text
                or str(pane.get("text") or "")
                or " ".join(encoding.example.words or ()),
                "id": str(pane.get("id") or ""),
            }
        )
    boot = {**session.boot(), "isLive": False, "shelf": [], "texts": texts, "start": dict(start)}
    return whole_page(boot, layers)
