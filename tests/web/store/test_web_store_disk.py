"""What the page's store keeps in Chromium: damaged, in too little space, shared by two tabs, deleted."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.web.store.tab import (
    BUSY,
    CUT,
    SIZE,
    SIZES,
    A,
    File,
    Refused,
    Tab,
    describe,
    require_whole,
    wait_for,
)
from tests.web_host import Answer, WebHost

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext


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
    tab: Tab, opened: Callable[[str], Tab], host: WebHost, files: dict[str, File], a: File
) -> None:
    other, b = opened(tab.where), files["b.bin"]
    tab.ask("fetch", [b])
    host.plan(A, Answer(stall=CUT))
    fetching = tab.begin("fetch", [a])
    assert host.stalled.wait(60)
    refused = other.refusal("remove")
    expected = "The model is being fetched, perhaps in another tab; end that first."
    assert refused.args == ("failed", expected)
    other.ask("prune", [a])
    host.release.set()
    tab.result(fetching)
    require_whole(tab, a, b)
    other.ask("prune", [a])
    assert tab.ask("missing", [a, b]) == ["b.bin"]


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


PARTS = {
    "all of it": (lambda content: content, []),
    "all of it, damaged": (lambda content: bytes(7) + content[7:], [None]),
    "more than it": (lambda content: content + b"x", [None]),
    "its beginning, without a tag": (lambda content: content[:99], ["bytes=99-"]),
    "nothing": (lambda content: b"", [None]),
}


@pytest.mark.parametrize("found", PARTS)
def test_what_an_end_without_warning_left_is_gone_on_with(
    opened: Callable[[str], Tab], host: WebHost, a: File, found: str
) -> None:
    tab, (change, ranges) = opened("worker"), PARTS[found]
    tab.ask("missing", [a])
    left = change((host.folder / A).read_bytes())
    tab.ask("plant", f"{a['sha256']}.part", base64.b64encode(left).decode())
    assert tab.ask("arrived", [a]) == min(len(left), SIZE)
    tab.ask("fetch", [a])
    assert host.ranges(A) == ranges
    assert tab.ask("names") == [a["sha256"]]
    require_whole(tab, a)


def test_a_whole_file_of_another_length_is_fetched_again(
    opened: Callable[[str], Tab], host: WebHost, a: File
) -> None:
    tab = opened("worker")
    assert tab.ask("missing", [a]) == ["a.bin"]
    tab.ask("plant", a["sha256"], "AAAA")
    assert (tab.ask("missing", [a]), tab.ask("arrived", [a])) == (["a.bin"], 0)
    tab.ask("fetch", [a])
    require_whole(tab, a)


OPENED = """async (prepare) => {
    (0, eval)(prepare);
    const { openStore } = await import('./msd/store.js');
    const opened = openStore('other').then((store) => store.missing([]));
    return opened.catch((error) => [error.code, error.message]);
}"""
NO_FILES = """
FileSystemFileHandle.prototype.createSyncAccessHandle = async () => {};
navigator.storage.getDirectory = () => Promise.reject(new DOMException('not here', 'SecurityError'));
"""
NO_CACHES = "caches.open = () => Promise.reject(new DOMException('not here', 'SecurityError'));"


def test_a_browser_that_refuses_files_has_a_cache_and_one_without_either_is_told(
    opened: Callable[[str], Tab],
) -> None:
    page = opened("page").page
    assert page.evaluate(OPENED, NO_FILES) == []
    assert "msd-store-other" in page.evaluate("caches.keys()")
    code, message = page.evaluate(OPENED, NO_FILES + NO_CACHES)
    assert code == "failed"
    assert message.startswith("This browser keeps no files for this page; use a window that is not private")
