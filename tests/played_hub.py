"""A server on this machine that answers as Hugging Face's does, for huggingface_hub's own client."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class PlayedHub(ThreadingHTTPServer):
    """Serves the models in `folder`, OWNER/NAME each; `asked` are the files that were downloaded.

    `cut_off` is the name of a file of which only half is sent, once.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.asked, self.ranges = folder, list[str](), list[str]()
        self.cut_off = ""

    @property
    def address(self) -> str:
        """The value of HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, name: str) -> list[Path]:
        """Return the files of a model."""
        return sorted(path for path in (self.folder / name).rglob("*") if path.is_file())


@contextmanager
def played_hub(folder: Path) -> Iterator[PlayedHub]:
    """Yield a hub that runs while the `with` block does."""
    with PlayedHub(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: PlayedHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlparse(self.path).path)
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?", path):
            return self._info(match[1])
        if match := re.match(r"/api/models/([^/]+/[^/]+)/tree/", path):
            return self._tree(match[1])
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            return self._file(match[1], match[2])
        return self._json({"error": "Not Found"}, 404)

    do_HEAD = do_GET

    def _info(self, name: str) -> None:
        files = self.server.files(name)
        if not files:
            return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        root = self.server.folder / name
        siblings = [{"rfilename": str(path.relative_to(root))} for path in files]
        return self._json({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings})

    def _tree(self, name: str) -> None:
        root = self.server.folder / name
        self._json(
            [
                {
                    "type": "file",
                    "path": str(path.relative_to(root)),
                    "size": path.stat().st_size,
                    "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
                }
                for path in self.server.files(name)
            ]
        )

    def _file(self, name: str, file: str) -> None:
        path = self.server.folder / name / file
        if not path.is_file():
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        whole, begin = path.read_bytes(), 0
        if given := re.fullmatch(r"bytes=(\d+)-\d*", self.headers.get("Range", "")):
            begin = int(given[1])
            self.server.ranges.append(f"{file} from {begin}")
        self.send_response(206 if begin else 200)
        self.send_header("ETag", f'"{hashlib.sha1(whole).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(whole) - begin))
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(whole) - 1}/{len(whole)}")
        self.end_headers()
        if self.command == "HEAD":
            return None
        self.server.asked.append(file)
        if file == self.server.cut_off:
            self.server.cut_off, self.close_connection = "", True
            self.wfile.write(whole[: len(whole) // 2])
            return None
        self.wfile.write(whole[begin:])
        return None

    def _json(self, content: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, form: str, *values: object) -> None:
        """Print nothing."""
