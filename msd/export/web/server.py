"""A web server for an exported site, on this machine alone."""

from __future__ import annotations

import errno
import os
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO, cast

from msd.errors import BadBundle, BadConfig
from msd.export.web.byte_range import ByteRange, Unsatisfiable, parse_range
from msd.export.web.manifest import NAME
from msd.export.web.site_file import cache_control, entity_tag, find_file, media_type

HOST = "127.0.0.1"
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'wasm-unsafe-eval'",
    "img-src": "'self' blob: data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""The page's Content-Security-Policy: nothing comes from elsewhere, and nothing goes there."""

HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {sources}" for name, sources in POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer; the Cross-Origin ones isolate the page, as WebAssembly's threads need."""

METHODS = "GET, HEAD"


class SiteServer(ThreadingHTTPServer):
    """Answers requests for the files of `folder`, a path without links, each connection in a thread."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.folder = folder

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def open_server(site: Path, port: int) -> SiteServer:
    """Return a server of `site`, at any port that is free if `port` is 0; it answers once it runs.

    Raises BadBundle for a folder that is no exported site, BadConfig for a port that cannot be had.
    """
    manifest = site / "model" / NAME
    if not manifest.is_file():
        raise BadBundle(
            f"{site} is no exported site (it has no model/{NAME}); msd export-web BUNDLE -o {site} writes one"
        )
    try:
        return SiteServer(site.resolve(), port)
    except OSError as problem:
        if problem.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is in use" if problem.errno == errno.EADDRINUSE else "is not for this user"
        raise BadConfig(f"port {port} {why}; give another with --port, or 0 for any free one") from None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120.0

    def do_GET(self) -> None:
        """Answer with a file, or what is asked for of it."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer as to GET, without the file."""
        self._answer()

    def do_POST(self) -> None:
        """Refuse."""
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"only {METHODS} are answered", {"Allow": METHODS})

    do_DELETE = do_OPTIONS = do_PATCH = do_PUT = do_POST

    def end_headers(self) -> None:
        """Add the headers of every answer."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Return the header Server."""
        return "msd"

    def log_message(self, *words: object) -> None:
        """Say nothing."""

    @property
    def _folder(self) -> Path:
        return cast(SiteServer, self.server).folder

    def _answer(self) -> None:
        if {"content-length", "transfer-encoding"} & {name.lower() for name in self.headers}:
            self.close_connection = True  # or the body would be read as another request
        path = find_file(self._folder, self.path)
        try:
            file = path.open("rb") if path else None
        except OSError:
            file = None
        if path is None or file is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such file")
            return
        with file:
            self._show(path, file)

    def _show(self, path: Path, file: BinaryIO) -> None:
        """Answer with the file, its part, or that the browser has it already."""
        status, name = os.fstat(file.fileno()), path.relative_to(self._folder).as_posix()
        tag, size = entity_tag(name, status), status.st_size
        about = {"ETag": tag, "Cache-Control": cache_control(name), "Accept-Ranges": "bytes"}
        if _matches(self.headers.get("If-None-Match", ""), tag):
            self._begin(HTTPStatus.NOT_MODIFIED, about)
            return
        try:
            part = self._part(tag, size)
        except Unsatisfiable:
            unknown = {"Content-Range": f"bytes */{size}"}
            self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, f"the file has {size} bytes", unknown)
            return
        sent = part or ByteRange(0, size)
        about |= {"Content-Type": media_type(path), "Content-Length": str(sent.end - sent.first)}
        if part:
            about["Content-Range"] = f"bytes {part.first}-{part.end - 1}/{size}"
        self._begin(HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK, about)
        self._send(file, sent)

    def _part(self, tag: str, size: int) -> ByteRange | None:
        """Return what the request asks for of a file; None for all of it. Raises Unsatisfiable."""
        known = self.headers.get("If-Range", tag)
        wanted = self.headers.get("Range") if self.command == "GET" and known.strip() == tag else None
        return parse_range(wanted, size) if wanted else None

    def _send(self, file: BinaryIO, part: ByteRange) -> None:
        count = part.end - part.first
        if self.command == "HEAD" or count == 0:
            return
        if self.connection.sendfile(file, part.first, count) < count:
            self.close_connection = True  # somebody has shortened the file

    def _refuse(self, status: HTTPStatus, sentence: str, about: dict[str, str] | None = None) -> None:
        text = f"{status.value} {status.phrase}: {sentence}.\n".encode()
        if self.command not in ("GET", "HEAD"):
            self.close_connection = True
        kind = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(text))}
        self._begin(status, {**kind, "Cache-Control": "no-store", **(about or {})})
        if self.command != "HEAD":
            self.wfile.write(text)

    def _begin(self, status: HTTPStatus, about: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in about.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def _matches(known: str, tag: str) -> bool:
    """Return whether the header If-None-Match names a version."""
    names = [name.strip().removeprefix("W/") for name in known.split(",")]
    return tag in names or names == ["*"]
