"""The page's store in Chromium, in OPFS and in a cache, against a server whose answers go wrong."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.web.browser import launched
from tests.web.node import SITE
from tests.web_host import Answer, WebHost, web_host

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

DRIVER = Path(__file__).parent / "store_page"
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
        self.page.wait_for_function("globalThis.begin !== undefined")
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
    for _ in range(600):
        if happens():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within half a minute")


def describe(name: str, content: bytes) -> File:
    return {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched(webgpu=False) as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[WebHost]:
    shutil.copytree(DRIVER, tmp_path / "site")
    shutil.copytree(SITE / "msd", tmp_path / "site/msd")
    (tmp_path / "site/model").mkdir()
    random = np.random.default_rng(5)
    for name, size in SIZES.items():
        (tmp_path / "site/model" / name).write_bytes(random.bytes(size))
    with web_host(tmp_path / "site") as host:
        yield host


@pytest.fixture
def files(host: WebHost) -> dict[str, File]:
    return {name: describe(name, (host.folder / "model" / name).read_bytes()) for name in SIZES}


@pytest.fixture
def a(files: dict[str, File]) -> File:
    return files["a.bin"]


@pytest.fixture
def opened(context: BrowserContext, host: WebHost) -> Callable[[str], Tab]:
    """`opened(where)`: another tab of the same browser."""

    def opened(where: str) -> Tab:
        page = context.new_page()
        page.goto(host.base + "index.html")
        return Tab(page, where)

    return opened


@pytest.fixture(params=["worker", "page"])
def tab(request: pytest.FixtureRequest, opened: Callable[[str], Tab]) -> Tab:
    return opened(request.param)


def require_whole(tab: Tab, *files: File) -> None:
    assert tab.ask("missing", files) == []
    for file in files:
        assert tab.ask("read", file) == file["sha256"]


def test_all_files_are_fetched_once_and_progress_is_told(
    tab: Tab, host: WebHost, files: dict[str, File]
) -> None:
    everything, total = list(files.values()), sum(SIZES.values())
    assert tab.ask("missing", everything) == list(files)
    told = tab.ask("fetch", [*everything, {**files["c.bin"], "file": "the same by another name"}])
    assert told == sorted(told)
    assert told[-1] == [total, total]
    assert {whole for _, whole in told} == {total}
    require_whole(tab, *everything)
    assert tab.ask("arrived", everything) == total
    asked = [name for name, _ in host.asked if name.startswith("model/")]
    quoted = {"d e+ü.bin": "d%20e%2B%C3%BC.bin"}
    assert sorted(asked) == [f"model/{quoted.get(name, name)}" for name in SIZES]
    assert all(headers["Range"] is None for _, headers in host.asked)


def test_after_a_cut_only_the_rest_is_asked_for(tab: Tab, host: WebHost, a: File) -> None:
    tab.cut(host, a)
    assert host.ranges(A) == [None, f"bytes={CUT}-"]
    assert host.asked[-1][1]["If-Range"] == '"one"'
    assert host.sent[A] == SIZE
    require_whole(tab, a)


def test_what_arrived_before_the_network_went_stays_for_the_next_visit(
    tab: Tab, host: WebHost, files: dict[str, File], a: File
) -> None:
    host.plan(A, BUSY, BUSY, BUSY)
    with pytest.raises(Refused) as refused:
        tab.cut(host, a, files["b.bin"])
    there = "0.9 of 1.3 MB are there, and the next try goes on from there."
    expected = f"{host.base}{A} cannot be fetched: it answers 503. {there}"
    assert refused.value.args == ("offline", expected)
    assert host.ranges(A) == [None, *[f"bytes={CUT}-"] * 3]
    assert tab.ask("arrived", [a]) == CUT
    assert tab.refusal("read", a).code == "damaged"
    tab.page.reload()
    assert tab.ask("arrived", [a]) == CUT
    told = tab.ask("fetch", [a])
    assert told[0][0] >= CUT
    assert host.ranges(A)[4:] == [f"bytes={CUT}-"]
    assert host.sent[A] == SIZE
    require_whole(tab, a)


def test_a_killed_tab_loses_nothing_that_opfs_has(
    opened: Callable[[str], Tab], host: WebHost, a: File
) -> None:
    killed = opened("worker")
    host.plan(A, Answer(stall=CUT))
    killed.begin("fetch", [a])
    wait_for(lambda: killed.ask("seen") == CUT)
    killed.page.close()
    tab = opened("worker")
    assert tab.ask("arrived", [a]) == CUT
    tab.ask("fetch", [a])
    assert host.ranges(A) == [None, f"bytes={CUT}-"]
    require_whole(tab, a)


def test_another_version_on_the_server_starts_over(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, *[Answer(etag='"two"')] * 2)
    tab.cut(host, a)
    assert host.ranges(A) == [None, f"bytes={CUT}-"]
    assert host.asked[-1][1]["If-Range"] == '"one"'
    assert host.sent[A] == CUT + SIZE
    require_whole(tab, a)


@pytest.mark.parametrize("etag", ['W/"one"', None])
def test_without_a_tag_that_can_be_trusted_the_sha_256_decides(
    tab: Tab, host: WebHost, a: File, etag: str | None
) -> None:
    host.plan(A, Answer(stall=CUT, cut=CUT, etag=etag), Answer(etag=etag))
    fetching = tab.begin("fetch", [a])
    wait_for(lambda: tab.ask("seen") == CUT)
    host.release.set()
    tab.result(fetching)
    assert host.ranges(A) == [None, f"bytes={CUT}-"]
    assert host.asked[-1][1]["If-Range"] is None
    require_whole(tab, a)


def test_a_server_without_ranges_starts_over(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(whole=True))
    tab.cut(host, a)
    assert host.sent[A] == CUT + SIZE
    require_whole(tab, a)


def test_a_server_without_ranges_that_always_cuts_is_given_up(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, *[Answer(cut=CUT, whole=True)] * 200)
    assert tab.refusal("fetch", [a]).code == "offline"
    assert host.planned[A]


def test_a_range_that_begins_elsewhere_is_not_taken(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(skew=1))
    tab.cut(host, a)
    assert host.ranges(A) == [None, f"bytes={CUT}-", None]
    require_whole(tab, a)


def test_a_server_that_has_no_such_bytes_is_asked_for_all(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(status=416))
    tab.cut(host, a)
    assert host.ranges(A) == [None, f"bytes={CUT}-", None]
    require_whole(tab, a)


def flipped(host: WebHost) -> bytes:
    content = bytearray((host.folder / A).read_bytes())
    content[CUT] ^= 4
    return bytes(content)


def test_a_flipped_byte_on_the_way_is_mended(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(page=flipped(host)))
    tab.ask("fetch", [a])
    assert host.ranges(A) == [None, None]
    require_whole(tab, a)


def test_a_flipped_byte_on_the_server_is_refused_and_mended_later(
    tab: Tab, host: WebHost, files: dict[str, File], a: File
) -> None:
    host.plan(A, *[Answer(page=flipped(host))] * 2)
    refused = tab.refusal("fetch", [a])
    assert refused.code == "damaged"
    assert f"{host.base}{A} has another SHA-256 than the manifest says" in refused.args[1]
    assert (tab.ask("missing", [a]), tab.ask("arrived", [a])) == (["a.bin"], 0)
    tab.ask("fetch", list(files.values()))
    require_whole(tab, *files.values())


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1, 0])
def test_a_file_of_another_length_is_refused_before_it_is_kept(
    tab: Tab, host: WebHost, a: File, size: int
) -> None:
    host.plan(A, Answer(page=b"x" * size) if size else Answer(status=200))
    refused = tab.refusal("fetch", [a])
    assert refused.code == "damaged"
    assert f"has {size} bytes and the manifest says {SIZE}; upload the whole export again." in refused.args[1]
    assert (tab.ask("arrived", [a]), len(host.ranges(A))) == (0, 1)


def test_a_file_that_does_not_end_is_refused(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(extra=5, length=False))
    refused = tab.refusal("fetch", [a])
    assert refused.code == "damaged"
    assert f"does not end after the {SIZE} bytes" in refused.args[1]
    assert tab.ask("arrived", [a]) == 0


def test_a_page_that_asks_to_log_in_is_no_beginning_of_a_file(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(page=b"<p>log in", length=False))
    tab.ask("fetch", [a])
    assert host.ranges(A) == [None, None]
    require_whole(tab, a)


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_file_that_the_server_has_not_is_said_at_once(
    tab: Tab, host: WebHost, a: File, status: int
) -> None:
    host.plan(A, Answer(status=status))
    refused = tab.refusal("fetch", [a])
    expected = f"{host.base}{A} answers {status}; upload the whole export again."
    assert (refused.code, refused.args[1]) == ("failed", expected)
    assert len(host.ranges(A)) == 1


@pytest.mark.parametrize("status", [500, 503, 408, 429])
def test_a_server_in_trouble_is_asked_again(tab: Tab, host: WebHost, a: File, status: int) -> None:
    trouble = [Answer(status=status)] * 2
    host.plan(A, *trouble, Answer(stall=CUT, cut=CUT), *trouble)
    fetching = tab.begin("fetch", [a])
    wait_for(lambda: tab.ask("seen") == CUT)
    host.release.set()
    tab.result(fetching)
    assert host.ranges(A) == [*[None] * 3, *[f"bytes={CUT}-"] * 3]
    require_whole(tab, a)


def test_a_server_that_falls_silent_is_asked_again(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, Answer(stall=CUT))
    tab.ask("fetch", [a])
    assert host.ranges(A) == [None, f"bytes={CUT}-"]
    require_whole(tab, a)


def test_damage_on_the_disk_is_found_and_mended(tab: Tab, host: WebHost, a: File) -> None:
    tab.ask("fetch", [a])
    tab.ask("damage", a)
    assert tab.ask("missing", [a]) == []
    refused = tab.refusal("read", a)
    assert refused.code == "damaged"
    assert refused.args[1] == "a.bin was damaged here and has been deleted; fetch the model again."
    assert tab.ask("missing", [a]) == ["a.bin"]
    assert "is not in this browser any more" in tab.refusal("read", a).args[1]
    tab.ask("fetch", [a])
    assert host.ranges(A) == [None, None]
    require_whole(tab, a)


def test_without_the_server_all_is_read_from_the_disk(
    tab: Tab, host: WebHost, files: dict[str, File]
) -> None:
    everything, total = list(files.values()), sum(SIZES.values())
    tab.ask("fetch", everything)
    host.shutdown()
    host.server_close()
    require_whole(tab, *everything)
    assert tab.ask("fetch", everything) == [[total, total]] * 2
    other = describe("other.bin", b"other")
    assert "the connection was lost" in tab.refusal("fetch", [other]).args[1]


@pytest.fixture
def quota(context: BrowserContext, host: WebHost) -> Callable[..., None]:
    """`quota(tab, bytes)` grants the page so many bytes, or all that there are."""

    def quota(tab: Tab, **size: int) -> None:
        session = context.new_cdp_session(tab.page)
        session.send("Storage.overrideQuotaForOrigin", {"origin": host.base.rstrip("/"), **size})

    return quota


def test_too_little_storage_is_said_before_anything_is_fetched(tab: Tab, host: WebHost, a: File) -> None:
    huge = {**a, "file": "huge.bin", "bytes": 10**16, "sha256": "0" * 64}
    refused = tab.refusal("fetch", [a, huge])
    assert refused.code == "storage-full"
    granted = (
        re.escape("The model needs 10000000001 MB more and the browser grants ") + r"\d+; free some space"
    )
    assert re.match(granted, refused.args[1])
    assert host.ranges(A) == []
    tab.ask("fetch", [a])
    require_whole(tab, a)


def test_storage_that_fills_meanwhile_loses_nothing(
    tab: Tab, host: WebHost, files: dict[str, File], a: File, quota: Callable[..., None]
) -> None:
    b = files["b.bin"]
    tab.ask("fetch", [b])
    host.plan(A, Answer(stall=CUT))
    fetching = tab.begin("fetch", [a, b])
    assert host.stalled.wait(60)
    quota(tab, quotaSize=500_000)
    host.release.set()
    with pytest.raises(Refused) as refused:
        tab.result(fetching)
    assert refused.value.code == "storage-full"
    assert "MB more and the browser grants no more; free some space" in refused.value.args[1]
    require_whole(tab, b)
    arrived = tab.ask("arrived", [a])
    quota(tab)
    tab.ask("fetch", [a])
    assert host.ranges(A)[1:] == [f"bytes={arrived}-" if arrived else None]
    require_whole(tab, a)


def test_a_cancelled_fetch_goes_on_the_next_time(
    tab: Tab, host: WebHost, files: dict[str, File], a: File
) -> None:
    host.plan(A, Answer(stall=CUT))
    fetching = tab.begin("fetch", list(files.values()))
    assert host.stalled.wait(60)
    wait_for(lambda: tab.ask("missing", list(files.values())) == ["a.bin"])
    tab.ask("cancel", fetching)
    with pytest.raises(Refused) as refused:
        tab.result(fetching)
    assert refused.value.args == ("cancelled", "It was cancelled.")
    arrived = tab.ask("arrived", [a])
    tab.ask("fetch", list(files.values()))
    assert host.ranges(A) == [None, f"bytes={arrived}-"]
    require_whole(tab, *files.values())


def test_a_fetch_between_two_tries_can_be_cancelled(tab: Tab, host: WebHost, a: File) -> None:
    host.plan(A, BUSY)
    fetching = tab.begin("fetch", [a], {"pause": 1_000_000})
    wait_for(lambda: host.ranges(A) == [None])
    tab.ask("cancel", fetching)
    with pytest.raises(Refused) as refused:
        tab.result(fetching)
    assert refused.value.code == "cancelled"


def test_two_files_are_fetched_at_a_time(tab: Tab, host: WebHost, files: dict[str, File]) -> None:
    for name in ("model/a.bin", "model/b.bin"):
        host.plan(name, Answer(stall=9))
    fetching = tab.begin("fetch", list(files.values()))
    wait_for(lambda: host.ranges("model/a.bin") == host.ranges("model/b.bin") == [None])
    assert tab.ask("missing", list(files.values())) == list(files)
    assert host.ranges("model/c.bin") == []
    host.release.set()
    tab.result(fetching)
    require_whole(tab, *files.values())


def test_one_that_fails_ends_the_others_and_they_go_on_later(
    tab: Tab, host: WebHost, files: dict[str, File], a: File
) -> None:
    host.plan(A, Answer(stall=CUT))
    host.plan("model/b.bin", Answer(status=404))
    refused = tab.refusal("fetch", [a, files["b.bin"], files["c.bin"]])
    assert (refused.code, "b.bin answers 404" in refused.args[1]) == ("failed", True)
    assert host.ranges("model/c.bin") == []
    tab.ask("fetch", list(files.values()))
    require_whole(tab, *files.values())


def test_two_tabs_fetch_each_file_once(
    tab: Tab, opened: Callable[[str], Tab], host: WebHost, files: dict[str, File], a: File
) -> None:
    everything, other = list(files.values()), opened(tab.where)
    host.plan(A, Answer(stall=CUT))
    first = tab.begin("fetch", everything)
    assert host.stalled.wait(60)
    second = other.begin("fetch", everything)
    wait_for(lambda: other.ask("missing", everything) == ["a.bin"])
    host.release.set()
    total = sum(SIZES.values())
    for each, begun in ((tab, first), (other, second)):
        assert each.result(begun)[-1] == [total, total]
        require_whole(each, *everything)
    assert [len(host.ranges(f"model/{name}")) for name in ("a.bin", "b.bin", "c.bin")] == [1, 1, 1]


def test_a_tab_goes_on_where_another_was_cancelled(
    tab: Tab, opened: Callable[[str], Tab], host: WebHost, a: File
) -> None:
    other = opened(tab.where)
    host.plan(A, Answer(stall=CUT))
    first = tab.begin("fetch", [a])
    assert host.stalled.wait(60)
    second = other.begin("fetch", [a])
    waiting = other.begin("fetch", [a])
    other.ask("cancel", waiting)
    with pytest.raises(Refused, match="It was cancelled"):
        other.result(waiting)
    tab.ask("cancel", first)
    other.result(second)
    assert host.ranges(A)[1:] == [f"bytes={host.sent[A] - SIZE + CUT}-"] or len(host.ranges(A)) == 2
    require_whole(other, a)


def test_nothing_is_deleted_while_another_tab_fetches(
    tab: Tab, opened: Callable[[str], Tab], host: WebHost, a: File
) -> None:
    other = opened(tab.where)
    host.plan(A, Answer(stall=CUT))
    fetching = tab.begin("fetch", [a])
    assert host.stalled.wait(60)
    for call, arguments in (("remove", []), ("prune", [[]])):
        refused = other.refusal(call, *arguments)
        assert refused.code == "failed"
        assert refused.args[1] == "The model is being fetched, perhaps in another tab; end that first."
    host.release.set()
    tab.result(fetching)
    require_whole(tab, a)


def test_what_no_manifest_needs_is_deleted(tab: Tab, host: WebHost, files: dict[str, File], a: File) -> None:
    b, c = files["b.bin"], files["c.bin"]
    host.plan(A, BUSY, BUSY, BUSY)
    with pytest.raises(Refused, match="503"):
        tab.cut(host, a)
    tab.ask("fetch", [b, c])
    assert tab.ask("space")["used"] == CUT + b["bytes"] + c["bytes"]
    tab.ask("prune", [a, b])
    assert tab.ask("missing", [a, b, c]) == ["a.bin", "c.bin"]
    space = tab.ask("space")
    assert space["used"] == CUT + b["bytes"]
    assert space["available"] > 1_000_000
    tab.ask("remove")
    assert tab.ask("missing", [a, b, c]) == ["a.bin", "b.bin", "c.bin"]
    assert (tab.ask("space")["used"], tab.ask("arrived", [a, b, c])) == (0, 0)
    if tab.where == "worker":
        assert tab.ask("names") == []


def test_opfs_has_files_by_their_sha_256_and_nothing_besides(
    opened: Callable[[str], Tab], host: WebHost, files: dict[str, File], a: File
) -> None:
    tab, b = opened("worker"), files["b.bin"]
    host.plan(A, BUSY, BUSY, BUSY)
    with pytest.raises(Refused, match="503"):
        tab.cut(host, a, b)
    assert tab.ask("names") == sorted([b["sha256"], f"{a['sha256']}.part", f"{a['sha256']}.tag"])
    tab.ask("fetch", [a])
    assert tab.ask("names") == sorted([a["sha256"], b["sha256"]])
