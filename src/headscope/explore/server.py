"""The live page on 127.0.0.1: who may ask, and one question at a time.

Only this machine can connect, only with the random token of the address, and only under the names
127.0.0.1 and localhost, so that no other web page can reach the model by a name of its own.
"""

import asyncio
import socket
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from threading import Event
from typing import Any

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from headscope.errors import HeadscopeError, StudyError
from headscope.explore.page import (
    CONTENT_TYPES,
    PAGE_FOLDER,
    STYLE_FILE,
    live_page,
    read_style,
)
from headscope.explore.questions import MOST_BYTES, QUESTIONS, Answer, read_question
from headscope.explore.session import Session

__all__ = ["LiveServer"]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Cancelled(Exception):
    """The page that asked is gone."""


class LiveServer:
    """A page for one session, at an address that cannot be guessed."""

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session = session
        self.token = token_urlsafe(16)
        self._socket = _bind(port)
        self.port: int = self._socket.getsockname()[1]
        self._lock = asyncio.Lock()
        self._server = uvicorn.Server(
            uvicorn.Config(self.app(), log_level="critical", lifespan="off", server_header=False)
        )

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def run(self) -> None:
        """Serve until the process is told to stop."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Stop serving, from any thread."""
        self._server.should_exit = True

    def app(self) -> Any:
        """The pages and questions; all others are refused alike."""
        routes = [
            Route("/{token}/", self._page),
            Route("/{token}/page/{name}", self._file),
            *(
                Route(f"/{{token}}/{name}", self._answer(answer), methods=["POST"])
                for name, answer in QUESTIONS.items()
            ),
        ]
        return _Guard(Starlette(routes=routes), self)

    async def _page(self, request: Request) -> Response:
        return Response(live_page(self.session.boot()), media_type="text/html")

    async def _file(self, request: Request) -> Response:
        name = Path(request.path_params["name"]).name
        if name == STYLE_FILE:
            return Response(read_style(), media_type=CONTENT_TYPES[".css"])
        path = PAGE_FOLDER / name
        if path.suffix not in CONTENT_TYPES or not path.is_file():
            return PlainTextResponse("There is no such file.", 404)
        return Response(path.read_bytes(), media_type=CONTENT_TYPES[path.suffix])

    def _answer(self, answer: Answer) -> Any:
        async def respond(request: Request) -> Response:
            try:
                asked = await _read(request)
            except ValueError as error:
                return _refuse(str(error), 400)
            gone = Event()
            watcher = asyncio.create_task(_watch(request, gone))

            def check() -> None:
                if gone.is_set():
                    raise Cancelled

            def work() -> Response:
                check()  # it may have waited for long
                return Response(answer(self.session, asked, check))

            try:
                async with self._lock:
                    return await anyio.to_thread.run_sync(work)
            except Cancelled:
                return Response(status_code=499)
            except HeadscopeError as error:
                return _refuse(str(error), 422)
            finally:
                watcher.cancel()

        return respond


class _Guard:
    """Refuses every request that is not from the page itself."""

    def __init__(self, app: Any, server: LiveServer) -> None:
        self.app, self.server = app, server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_safely(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        app = self.app if self._allows(scope["path"], headers) else _FORBIDDEN
        await app(scope, receive, send_safely)

    def _allows(self, path: str, headers: dict[str, str]) -> bool:
        hosts = [f"{name}:{self.server.port}" for name in ("127.0.0.1", "localhost")]
        origin = headers.get("origin")
        is_own_name = headers.get("host") in hosts
        is_own_page = origin is None or origin in [f"http://{host}" for host in hosts]
        is_own_page &= headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        token = path.split("/")[1] if "/" in path else ""
        return (
            is_own_name
            and is_own_page
            and compare_digest(token.encode(), self.server.token.encode())
        )


_FORBIDDEN = PlainTextResponse(
    "Not allowed. Open the address that `headscope explore` printed.", 403
)


def _refuse(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)


async def _read(request: Request) -> dict[str, Any]:
    """The question, or a ValueError."""
    if request.headers.get("content-type") != "application/json":
        raise ValueError("Expected application/json.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            break
    return read_question(body)


async def _watch(request: Request, gone: Event) -> None:
    """Say when nobody waits for the answer any more."""
    while not gone.is_set():
        if await request.is_disconnected():
            gone.set()
        await asyncio.sleep(0.05)


def _bind(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise StudyError(
            f"--port {port} cannot be used ({error}). Expected a free port; leave --port out to "
            "take any."
        ) from error
    return bound
