"""A web server for a folder, on a port of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    """Let a server answer in a thread of its own, and close it afterwards."""
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def served(folder: Path, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the address of a server of `folder`, which sends `headers` with everything."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, headers or {}, directory=str(folder)))
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}"


class _Quiet(SimpleHTTPRequestHandler):
    def __init__(self, headers: Mapping[str, str], *arguments: object, **options: object) -> None:
        self._headers = headers
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def end_headers(self) -> None:
        for name, value in self._headers.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""
