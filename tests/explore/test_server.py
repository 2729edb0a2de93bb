"""Who may ask the live page, and what is answered to bad questions."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from headscope.errors import StudyError
from headscope.explore.maps import TextMaps
from headscope.explore.page import PAGE_FOLDER, join_modules, live_page, whole_page
from headscope.explore.server import LiveServer
from tests.explore.made import TEXT, make_session, run_server

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    pytest.importorskip("uvicorn", reason="the extra 'explore' is not installed")
    yield from run_server(LiveServer(make_session()))


def ask(
    server: LiveServer,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    token: str | None = None,
) -> tuple[int, bytes, Any]:
    data = body if isinstance(body, bytes | None) else json.dumps(body)
    method = "GET" if body is None else "POST"
    place = f"/{server.token if token is None else token}/{path}"
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request(method, place, data, headers if headers is not None else JSON)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers


def test_the_page_and_its_files_are_served_with_a_strict_policy(server: LiveServer) -> None:
    status, page, headers = ask(server, "")
    assert status == 200
    assert b"headscope explore" in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    for path in PAGE_FOLDER.glob("*.js"):
        status, content, headers = ask(server, f"page/{path.name}")
        assert (status, content) == (200, path.read_bytes())
        assert headers["content-type"].startswith("text/javascript")
    assert b"--accent" in ask(server, "page/style.css")[1]


@pytest.mark.parametrize("name", ["../server.py", "%2e%2e%2fserver.py", "none.js", "index.html"])
def test_no_other_file_is_served(server: LiveServer, name: str) -> None:
    assert ask(server, f"page/{name}")[0] in (403, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {**JSON, "Host": "evil.example"},
        {**JSON, "Host": "127.0.0.1.evil.example"},
        {**JSON, "Origin": "http://evil.example"},
        {**JSON, "Origin": "null"},
        {**JSON, "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_names_and_other_pages_are_refused(
    server: LiveServer, headers: dict[str, str]
) -> None:
    assert ask(server, "look", {"text": TEXT}, headers)[0] == 403
    assert ask(server, "", None, headers)[0] == 403


@pytest.mark.parametrize("token", ["", "x", "page"])
def test_no_answer_without_the_token(server: LiveServer, token: str) -> None:
    assert ask(server, "", token=token)[0] == 403
    assert ask(server, "look", {"text": TEXT}, token=token)[0] == 403


def test_its_own_page_is_answered_under_both_names(server: LiveServer) -> None:
    for name in ("127.0.0.1", "localhost"):
        host = f"{name}:{server.port}"
        headers = {**JSON, "Host": host, "Origin": f"http://{host}"}
        status, answer, _ = ask(server, "look", {"text": TEXT}, headers)
        assert status == 200
        assert json.loads(answer)["tokens"][1] == "the"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"text": ""}, JSON, 422),
        ({"text": TEXT, "model": 9}, JSON, 422),
        (b"{", JSON, 400),
        (b"[]", JSON, 400),
        (b'{"text": "x"}', {"content-type": "text/plain"}, 400),
        (b"x" * 500_001, JSON, 400),
    ],
)
def test_bad_questions_are_answered_with_a_message(
    server: LiveServer, body: Any, headers: dict[str, str], status: int
) -> None:
    found, answer, _ = ask(server, "look", body, headers)
    assert found == status
    assert json.loads(answer)["error"]


DEEP = b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("look", DEEP),
        ("look", {"text": TEXT, "weights": []}),
        ("look", {"text": TEXT, "weights": "x"}),
        ("look", {"text": TEXT, "model": True}),
        ("look", {"text": [TEXT]}),
        ("look", b'{"text": "\\ud800"}'),
        ("look", b'{"text": NaN}'),
        ("change", {"text": TEXT, "heads": ["1-1"], "mode": "zero", "place": True}),
        ("change", {"text": TEXT, "heads": ["1-1"], "mode": {}}),
        ("change", {"text": TEXT, "heads": "1-1", "mode": "zero"}),
        ("save", b'{"panes": [{"text": "a"}], "start": {"text": "\\ud800"}}'),
        ("save", {"panes": [{"text": "a", "model": []}], "start": {}}),
        ("save", {"panes": ["a"], "start": {}}),
        ("save", {"panes": [{"text": "a"}], "start": 3}),
    ],
)
def test_no_question_is_answered_with_an_error_of_the_server(
    server: LiveServer, what: str, body: Any
) -> None:
    status, answer, _ = ask(server, what, body)
    assert 400 <= status < 500
    assert json.loads(answer)["error"]


def test_fields_that_are_null_count_as_left_out(server: LiveServer) -> None:
    question = {"text": TEXT, "heads": ["1-1"], "mode": "zero", "place": None, "weights": None}
    assert ask(server, "change", question)[0] == 200


def test_it_listens_on_this_machine_alone(server: LiveServer) -> None:
    assert server._socket.getsockname()[0] == "127.0.0.1"
    assert server.address.startswith("http://127.0.0.1:")


def test_a_port_in_use_is_told() -> None:
    pytest.importorskip("uvicorn", reason="the extra 'explore' is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StudyError, match="free port"):
            LiveServer(make_session(), port)


def test_one_question_at_a_time_and_a_closed_page_cancels(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, most, stopped, begun = 0, 0, threading.Event(), threading.Event()
    slow = threading.Event()

    def look(asked: Any, check: Any) -> dict[str, Any]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        begun.set()
        try:
            for _ in range(600 if asked["text"] == "slow" else 1):
                check()
                slow.wait(0.01)
        except Exception:
            stopped.set()
            raise
        finally:
            at_once -= 1
        return {"done": asked["text"]}

    monkeypatch.setattr(server.session, "look", look)
    gone = socket.create_connection(("127.0.0.1", server.port))
    body = b'{"text": "slow"}'
    head = f"POST /{server.token}/look HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    gone.sendall(head.encode() + body)
    assert begun.wait(10)
    answers: list[int] = []
    second = threading.Thread(
        target=lambda: answers.append(ask(server, "look", {"text": "quick"})[0])
    )
    second.start()
    second.join(0.3)
    assert second.is_alive()  # it waits
    gone.close()
    assert stopped.wait(10)
    second.join(10)
    assert answers == [200]
    assert most == 1


def test_a_cancelled_look_stops_at_the_next_layer() -> None:
    session, n_checks = make_session(), 0

    def check() -> None:
        nonlocal n_checks
        n_checks += 1
        if n_checks == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        session.look({"text": TEXT}, check)
    assert n_checks == 2
    assert isinstance(session._read_maps({"text": TEXT}, lambda: None)[0], TextMaps)


def test_the_whole_page_has_the_same_modules_inside() -> None:
    code = join_modules("main")
    for path in PAGE_FOLDER.glob("*.js"):
        if path.name not in ("types.js", "widget.js"):  # types alone; what is around the page
            assert f"modules.{path.stem} = " in code
    assert "import {" not in code
    assert "export " not in code
    boot = {"start": {"text": "</script><script>alert(1)</script>"}}
    for page in (live_page(boot), whole_page(boot, {})):
        assert "<script>alert" not in page
