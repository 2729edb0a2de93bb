"""The part of the hub's interface that pushing and reading a dataset use, on loopback."""

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "c" * 40
TOKEN = "hf_not_a_real_token"


class FakeHub(ThreadingHTTPServer):
    """Datasets by name, as their files; `refuse` has paths that end with an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.datasets: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.refuse: dict[str, int] = {}
        self.tokens: set[str] = set()


class Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.tokens.add(self.headers.get("Authorization", ""))
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if (status := self.server.refuse.get(parts[-2])) is not None:
            return self.answer({"error": "refused"}, status)
        if parts[1] == "validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if parts[1] == "repos":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            if name in self.server.datasets:
                return self.answer({"error": "You already created it", "url": name}, 409)
            self.server.datasets[name] = {".gitattributes": b""}
            self.server.private[name] = (
                asked.get("visibility") == "private" or asked.get("private") is True
            )
            return self.answer({"url": f"{self.server.url}/datasets/{name}"})  # type: ignore[attr-defined]
        name = "/".join(parts[2:4])
        if parts[4] == "preupload":
            paths = [file["path"] for file in json.loads(body)["files"]]
            plain = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            return self.answer({"files": [{"path": path, **plain} for path in paths]})
        for line in body.splitlines():
            change = json.loads(line)
            if change["key"] == "file":
                content = b64decode(change["value"]["content"])
                self.server.datasets[name][change["value"]["path"]] = content
            elif change["key"] == "deletedFile":
                del self.server.datasets[name][change["value"]["path"]]
        return self.answer({"commitUrl": f"/{name}", "commitOid": COMMIT, "hookOutput": ""})

    def do_DELETE(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        del self.server.datasets[f"{asked['organization']}/{asked['name']}"]
        self.answer({})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        is_api = parts[0] == "api"
        name = "/".join(parts[2:4] if is_api else parts[1:3])
        if name not in self.server.datasets:
            return self.answer({"error": "Repository not found"}, 404, "RepoNotFound")
        files = self.server.datasets[name]
        if is_api and "tree" in parts:
            return self.answer(
                [
                    {"type": "file", "path": path, "size": len(content), "oid": _oid(content)}
                    for path, content in files.items()
                ]
            )
        if is_api:
            siblings = [{"rfilename": path} for path in files]
            return self.answer({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})
        return self.answer(files["/".join(parts[5:])])

    def answer(self, content: object, status: int = 200, code: str = "") -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers = {
            "Content-Length": str(len(body)),
            "ETag": f'"{_oid(body)}"',
            "X-Repo-Commit": COMMIT,
            "Content-Type": "application/json",
        }
        for key, value in {**headers, **({"X-Error-Code": code} if code else {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _oid(content: bytes) -> str:
    return sha1(content).hexdigest()


@contextmanager
def fake_hub(patch: pytest.MonkeyPatch, cache: Path) -> Iterator[FakeHub]:
    """A hub that the library takes for the real one, and a token for it."""
    import huggingface_hub.constants as constants

    hub = FakeHub()
    hub.url = f"http://127.0.0.1:{hub.server_port}"  # type: ignore[attr-defined]
    thread = Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    patch.setattr(constants, "ENDPOINT", hub.url)  # type: ignore[attr-defined]
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"  # type: ignore[attr-defined]
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    patch.setenv("HF_TOKEN", TOKEN)
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
