"""A web server on this machine whose answers can go wrong in the ways that real ones do."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path
from typing import cast
from urllib.parse import unquote


@dataclass(frozen=True)
class Answer:
    """How a request is answered; without changes, as a good server does.

    `cut`: the connection is closed after so many bytes. `stall`: nothing comes after so many bytes.
    `whole`: the range is ignored. `etag`: another version than before. `extra`: how many bytes too many come.
    `length`: whether the length is said. `status`: nothing but this comes. `skew`: the range begins so many
    bytes later. `page`: this comes in the file's place.
    """

    cut: int | None = None
    stall: int | None = None
    whole: bool = False
    etag: str | None = '"one"'
    extra: int = 0
    length: bool = True
    status: int | None = None
    location: str | None = None
    skew: int = 0
    page: bytes = b""


class WebHost(ThreadingHTTPServer):
    """Serves the files of a folder, and notes what it was asked for and how many bytes of a file it sent."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.asked: list[tuple[str, Message]] = []
        self.sent: Counter[str] = Counter()
        self.planned: dict[str, list[Answer]] = defaultdict(list)
        self.stalled, self.release = threading.Event(), threading.Event()

    @property
    def base(self) -> str:
        """The address of the folder."""
        return f"http://127.0.0.1:{self.server_port}/"

    def plan(self, name: str, *answers: Answer) -> None:
        """Answer the next requests for a file so, and later ones well."""
        self.planned[name] += answers

    def headers(self, name: str) -> list[Message]:
        """Return the headers of each request for a file; a page asks for others too, such as its icon."""
        return [headers for asked, headers in self.asked if asked == name]

    def ranges(self, name: str) -> list[str | None]:
        """Return the Range of each request for a file."""
        return [headers["Range"] for headers in self.headers(name)]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that go away are what is tested."""


@contextmanager
def web_host(folder: Path) -> Iterator[WebHost]:
    """Yield a server of the files in a folder."""
    with WebHost(folder) as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield host
        finally:
            host.release.set()
            host.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host, name = cast("WebHost", self.server), self.path.removeprefix("/")
        host.asked.append((name, self.headers))
        answer = host.planned[name].pop(0) if host.planned[name] else Answer()
        path = host.folder / unquote(name)
        self.close_connection = True
        if answer.status or not path.is_file():
            self._refuse(answer)
        else:
            self._serve(name, path.read_bytes(), answer)

    def _refuse(self, answer: Answer) -> None:
        self.send_response(answer.status or 404)
        self.send_header("Content-Length", "0")
        if answer.location:
            self.send_header("Location", answer.location)
        self.end_headers()

    def _serve(self, name: str, content: bytes, answer: Answer) -> None:
        content = answer.page or content
        first = 0 if answer.page else self._first(answer)
        if first > len(content):
            self._refuse(Answer(status=416))
            return
        body = content[first:] + b"x" * answer.extra
        self.send_response(206 if first else 200)
        if first:
            said = first + answer.skew
            self.send_header("Content-Range", f"bytes {said}-{len(content) - 1}/{len(content)}")
        if answer.etag:
            self.send_header("ETag", answer.etag)
        if answer.length:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", guess_type(name)[0] or "application/octet-stream")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Connection", "close")
        self.end_headers()
        self._send(name, body, answer)

    def _first(self, answer: Answer) -> int:
        asked, known = self.headers["Range"], self.headers["If-Range"]
        if not asked or answer.whole or (known and known != answer.etag):
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def _send(self, name: str, body: bytes, answer: Answer) -> None:
        host = cast("WebHost", self.server)
        now = body[: answer.cut] if answer.stall is None else body[: answer.stall]
        self.wfile.write(now)
        host.sent[name] += len(now)
        if answer.stall is not None:
            host.stalled.set()
            host.release.wait(120)
            self.wfile.write(body[answer.stall : answer.cut])
            host.sent[name] += len(body[answer.stall : answer.cut])

    def log_message(self, *words: object) -> None:
        """Say nothing."""
