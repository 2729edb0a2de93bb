"""The page: its files as they are for the server, or one file with texts and maps inside."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from headscope.errors import StudyError
from headscope.explore.pack import pack_maps
from headscope.explore.session import Session, thumbs_values
from headscope.explore.texts import describe_tokens
from headscope.view.sections import as_script

__all__ = [
    "CONTENT_TYPES", "PAGE_FOLDER", "STYLE_FILE", "join_modules", "live_cell", "live_page",
    "read_style", "render_page", "whole_page", "write_page",
]  # fmt: skip

PAGE_FOLDER = Path(__file__).parent / "static"
CONTENT_TYPES = {".js": "text/javascript", ".css": "text/css"}
STYLE_FILE = "style.css"
STYLE, DATA = "<!-- style -->", "<!-- data -->"
FIRST_MODULE = "main.js"
MOST_TEXTS = 50

IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def live_page(boot: dict[str, Any]) -> str:
    """The page as the server gives it: style and modules are files of their own."""
    page = (PAGE_FOLDER / "index.html").read_text()
    data = (
        _data("boot", as_script(boot, is_packed=False))
        + f'<script type="module" src="page/{FIRST_MODULE}">'
    )
    page = page.replace(STYLE, f'<link rel="stylesheet" href="page/{STYLE_FILE}">')
    return page.replace(DATA, f"{data}</script>")


def write_page(session: Session, request: Mapping[str, Any]) -> bytes:
    """What the page asked to save: the texts it shows, and the view of them."""
    panes, start = request.get("panes"), request.get("start")
    if not isinstance(panes, list) or not all(isinstance(pane, dict) for pane in panes):
        raise StudyError("There is no text to save. Expected one or more; open a text first.")
    kept = {str(k): str(v) for k, v in start.items()} if isinstance(start, dict) else {}
    kept["weights"] = "attention"  # norms need the model
    return render_page(session, panes, kept).encode()


def live_cell(session: Session) -> str:
    """The page for a cell of a notebook, which asks the kernel."""
    return whole_page({**session.boot(), "isCell": True}, {})


def render_page(
    session: Session,
    panes: Sequence[Mapping[str, Any]],
    start: Mapping[str, str],
    is_cell: bool = False,
) -> str:
    """The page of these texts, which shows what `start` says first, or the same for a cell."""
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
                "text": str(pane.get("text") or "")
                or encoding.example.text
                or " ".join(encoding.example.words or ()),
                "id": str(pane.get("id") or ""),
            }
        )
    boot = {**session.boot(), "isLive": False, "listed": [], "texts": texts, "start": dict(start)}
    return whole_page({**boot, "isCell": is_cell}, layers)


def whole_page(boot: dict[str, Any], layers: dict[str, str]) -> str:
    """The page with all it needs inside; `layers` are the maps by the id they are found under."""
    nonce = token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    style = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<style nonce="{nonce}">\n{read_style()}</style>'
    )
    parts = [
        _data("boot", as_script(boot, is_packed=False)),
        *(_data(id, text) for id, text in layers.items()),
    ]
    code = join_modules(FIRST_MODULE.removesuffix(".js"))
    parts.append(f'<script type="module" nonce="{nonce}">\n{code}</script>')
    page = (PAGE_FOLDER / "index.html").read_text()
    before, after = page.replace(STYLE, style).split(DATA)
    return before + "\n".join(parts) + after


def read_style() -> str:
    """The report's own style, and what the explorer adds."""
    report = files("headscope.view").joinpath("templates/report.css").read_text()
    return f"{report}{(PAGE_FOLDER / 'explore.css').read_text()}"


def join_modules(first: str) -> str:
    """The modules in one, each in a function of its own, those that are imported before the rest.

    It knows the two forms that these modules use: `import { a } from "./b.js";` and an `export`
    before a declaration.
    """
    joined: dict[str, str] = {}

    def add(name: str) -> None:
        source = (PAGE_FOLDER / f"{name}.js").read_text()
        joined[name] = ""  # a circle of imports would end here
        for _, other in IMPORT.findall(source):
            if other not in joined:
                add(other)
        exported = [found for _, found in EXPORT.findall(source)]
        body = IMPORT.sub(lambda found: f"const {found[1]} = modules.{found[2]};", source)
        body = EXPORT.sub(r"\1", body)
        del joined[name]  # so that it stands after what it imports
        joined[name] = (
            f"modules.{name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"
        )

    add(first)
    return "const modules = {};\n" + "".join(joined.values()).replace("</script", "<\\/script")


def _data(id: str, text: str) -> str:
    return f'<script type="application/json" id="{id}">{text}</script>'
