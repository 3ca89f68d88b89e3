"""Chromium without a window, driven over its DevTools protocol through two pipes; it needs nothing installed.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

PROGRAMS = "chromium", "chromium-browser", "google-chrome"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-unsafe-webgpu",
    "--enable-features=Vulkan",
    "--ignore-gpu-blocklist",
)
ADAPTERS = {
    "swiftshader": ("--use-webgpu-adapter=swiftshader",),
    "vulkan": ("--use-angle=vulkan", "--disable-vulkan-surface"),
}
"""What makes Chromium use an adapter: SwiftShader, or what the machine's Vulkan driver has."""

PIPE = "--remote-debugging-pipe"
FROM_US, TO_US = 3, 4
"""The file descriptors that Chromium reads commands from and writes answers to."""


class BrowserFailed(Exception):
    """A page or the browser ended, raised an error, or took too long; the message says which."""


class Chromium:
    """A browser with an empty profile; use it as a context manager."""

    def __init__(self, adapter: str, patience: float, more: Sequence[str] = ()) -> None:
        """Start it; `patience` is the seconds that each command may take."""
        path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
        if path is None:
            raise BrowserFailed(f"none of {', '.join(PROGRAMS)} is installed")
        self.patience = patience
        self.events: list[dict[str, Any]] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._number, self._rest = 0, b""
        self._process, self._write, self._read = _started(
            [path, *FLAGS, *ADAPTERS[adapter], *more, PIPE, f"--user-data-dir={self._profile.name}"]
        )

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    @property
    def pid(self) -> int:
        """The browser's own process; the others are its descendants."""
        return self._process.pid

    def version(self) -> str:
        """Return the browser's name and version."""
        return str(self.command("Browser.getVersion")["product"])

    def command(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the answer to a command of the protocol; raises BrowserFailed."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.patience
        while True:
            answer = self._next(until, method)
            if answer.get("id") == self._number:
                break
            self.events.append(answer)
            if answer.get("method") in ("Inspector.targetCrashed", "Target.targetCrashed"):
                raise BrowserFailed("the page crashed")
        if "error" in answer:
            raise BrowserFailed(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, address: str, width: int = 1280, height: int = 800) -> BrowserPage:
        """Return a new page that has loaded `address`."""
        target = self.command(
            "Target.createTarget", url="about:blank", width=width, height=height, newWindow=True
        )
        attached = self.command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = BrowserPage(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Inspector"):
            page.command(f"{domain}.enable")
        page.command("Page.navigate", url=address)
        ready = "document.readyState === 'complete' && location.href !== 'about:blank'"
        page.wait(ready, 30)
        return page

    def _next(self, until: float, method: str) -> dict[str, Any]:
        """Return the next message of the browser."""
        while b"\0" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise BrowserFailed(f"no answer to {method} within {self.patience:g} s")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise BrowserFailed("the browser ended")
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        parsed: dict[str, Any] = json.loads(message)
        return parsed


class BrowserPage:
    """A page of a browser."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a command for this page."""
        return self._browser.command(method, self._session, **params)

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression, of a promise what it gives; raises BrowserFailed."""
        found = self.command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if problem := found.get("exceptionDetails"):
            said = problem.get("exception", {}).get("description") or problem.get("text", "")
            raise BrowserFailed(" ".join(str(said).split())[:1000])
        return found["result"].get("value")

    def call(self, function: str, *arguments: Any) -> Any:
        """Return what a function of the page's globalThis gives for arguments that JSON can carry."""
        return self.evaluate(f"{function}({', '.join(map(json.dumps, arguments))})")

    def wait(self, condition: str, seconds: float) -> None:
        """Wait until an expression is true; raises BrowserFailed after `seconds`."""
        until = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > until:
                raise BrowserFailed(f"after {seconds:g} s still not: {condition}")
            time.sleep(0.05)

    def screenshot(self) -> bytes:
        """Return a picture of the page, as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])

    def said(self) -> list[str]:
        """Return what the console of every page of the browser was told so far."""
        calls = [e["params"] for e in self._browser.events if e.get("method") == "Runtime.consoleAPICalled"]
        return [" ".join(str(a.get("value", a.get("description"))) for a in c["args"]) for c in calls]


def _started(command: list[str]) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start a browser; return it, and the ends of the pipes that are ours: to write and to read."""
    theirs_read, ours_write = os.pipe()
    ours_read, theirs_write = os.pipe()
    reading = fcntl.fcntl(theirs_read, fcntl.F_DUPFD_CLOEXEC, 10)
    writing = fcntl.fcntl(theirs_write, fcntl.F_DUPFD_CLOEXEC, 10)

    def connect() -> None:
        os.dup2(reading, FROM_US)
        os.dup2(writing, TO_US)

    quiet = None if os.environ.get("CHROMIUM_LOG") else subprocess.DEVNULL
    process = subprocess.Popen(
        command, preexec_fn=connect, pass_fds=(FROM_US, TO_US), stdout=quiet, stderr=quiet
    )
    for end in (theirs_read, theirs_write, reading, writing):
        os.close(end)
    return process, ours_write, ours_read
