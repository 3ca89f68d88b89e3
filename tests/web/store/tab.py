"""A tab of Chromium whose store is driven call by call, and the files that it fetches."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.web_host import Answer, WebHost

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIZES = {"a.bin": 1_000_003, "b.bin": 300_001, "c.bin": 70_000, "d e+ü.bin": 1}
A, CUT = "model/a.bin", 600_001
SIZE = SIZES["a.bin"]
BUSY = Answer(status=503)
File = dict[str, Any]


class Refused(Exception):
    """What a call threw: its code, and its message."""

    @property
    def code(self) -> str:
        return self.args[0]


class Tab:
    """A page whose store is used in a worker, which has OPFS, or in the page itself, which has a cache."""

    def __init__(self, page: Page, where: str) -> None:
        self.page, self.where = page, where

    def begin(self, call: str, *arguments: Any) -> int:
        """Begin a call, and return its number."""
        wait_for(lambda: self.page.evaluate("globalThis.begin !== undefined"))
        number: int = self.page.evaluate("(request) => begin(...request)", [self.where, call, arguments])
        return number

    def result(self, number: int) -> Any:
        """Wait for a call; raises Refused."""
        answer = self.page.evaluate("(id) => result(id)", number)
        if "error" in answer:
            raise Refused(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def ask(self, call: str, *arguments: Any) -> Any:
        """Call and wait; raises Refused."""
        return self.result(self.begin(call, *arguments))

    def refusal(self, call: str, *arguments: Any) -> Refused:
        """Return what a call throws."""
        with pytest.raises(Refused) as refused:
            self.ask(call, *arguments)
        return refused.value

    def begin_and_cut(self, host: WebHost, *files: File) -> int:
        """Begin to fetch files; when all else has come, the first one's connection ends after CUT bytes."""
        host.planned[A].insert(0, Answer(stall=CUT, cut=CUT))
        number = self.begin("fetch", files)
        bytes = CUT + sum(file["bytes"] for file in files[1:])
        wait_for(lambda: self.ask("seen") == bytes)
        host.release.set()
        return number

    def cut(self, host: WebHost, *files: File) -> Any:
        """Fetch files and wait, as in `begin_and_cut`."""
        return self.result(self.begin_and_cut(host, *files))


def wait_for(happens: Callable[[], bool]) -> None:
    for _ in range(3600):
        if happens():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within three minutes")


def describe(name: str, content: bytes) -> File:
    return {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def require_whole(tab: Tab, *files: File) -> None:
    assert tab.ask("missing", files) == []
    for file in files:
        assert tab.ask("read", file) == file["sha256"]
