"""The page's store in Chromium, in OPFS and in a cache, against a server whose answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

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
    require_whole,
    wait_for,
)
from tests.web_host import Answer, WebHost, web_host


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
    assert host.headers(A)[-1]["If-Range"] == '"one"'
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
    assert host.headers(A)[-1]["If-Range"] == '"one"'
    wait_for(lambda: host.sent[A] == CUT + SIZE)  # counted when it has left, which a page may learn before
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
    assert host.headers(A)[-1]["If-Range"] is None
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
    tab.ask("fetch", [a], {"stall": 4000})
    assert host.ranges(A) == [None, f"bytes={CUT}-"]
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


def test_a_fetch_cancelled_before_its_first_request_says_so(tab: Tab, host: WebHost, a: File) -> None:
    refused = tab.refusal("fetchUntilTold", [a], 1)
    assert refused.args == ("cancelled", "It was cancelled.")
    assert host.ranges(A) == []
    assert tab.ask("missing", [a]) == ["a.bin"]


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


def test_another_server_is_asked_for_the_rest_without_its_leave(
    tab: Tab, host: WebHost, files: dict[str, File], a: File
) -> None:
    """It would have to allow If-Range, and to show what a range is: here it allows no more than reading."""
    with web_host(host.folder) as other:
        other.plan(A, Answer(stall=CUT, cut=CUT))
        fetching = tab.begin("fetch", [a], None, other.base)
        wait_for(lambda: tab.ask("seen") == CUT)
        other.release.set()
        tab.result(fetching)
        assert other.ranges(A) == [None, f"bytes={CUT}-"]
        assert [headers["If-Range"] for _, headers in other.asked] == [None, None]
    assert host.ranges(A) == []
    require_whole(tab, a)
