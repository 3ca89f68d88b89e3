"""Downloads of an exported app, on a JVM, from a server that misbehaves as real ones do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage

import pytest

from msd.export.app.manifest import NAME
from tests.deliveries import LARGE, Deliveries
from tests.jvm import Jvm, Refused
from tests.played_download import MIDDLE, UNET, PlayedDownload, played_download, wait_for
from tests.tiny_disk import tiny_disk
from tests.web_host import Answer


@pytest.fixture
def app(deliveries: Deliveries, played: Jvm, tmp_path: Path) -> Iterator[PlayedDownload]:
    with played_download(deliveries, played, tmp_path) as app:
        yield app


def test_a_model_arrives_once_and_progress_goes_from_nothing_to_all(
    app: PlayedDownload, deliveries: Deliveries
) -> None:
    total = sum(deliveries.files.values())
    told = app.fetch()
    app.require_whole()
    assert told[0] == ["fetching", 0, total]
    assert told[-1] == ["fetching", total, total]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert dict(app.host.sent) == deliveries.files
    assert app.fetch() == []
    assert dict(app.host.sent) == deliveries.files
    assert app.host.asked[0][1]["Accept-Encoding"] == "identity"


def test_a_connection_that_breaks_is_taken_up_again_where_it_broke(app: PlayedDownload) -> None:
    app.host.plan(UNET, Answer(cut=MIDDLE), Answer(cut=1))
    app.fetch()
    app.require_whole()
    assert app.host.ranges(UNET) == [None, f"bytes={MIDDLE}-", f"bytes={MIDDLE + 1}-"]
    assert app.host.sent[UNET] == LARGE
    assert [headers["If-Range"] for name, headers in app.host.asked if name == UNET] == [None, *['"one"'] * 2]


def test_a_later_attempt_fetches_only_the_rest_and_begins_with_what_is_there(
    app: PlayedDownload, deliveries: Deliveries
) -> None:
    app.host.plan(UNET, Answer(cut=MIDDLE), *[Answer(status=503)] * 2)
    with pytest.raises(Refused, match=r"BadFile: cannot download http://127.*unet\.tflite: it answers 503;"):
        app.fetch(tries=2)
    assert app.part().stat().st_size == MIDDLE
    total = sum(deliveries.files.values())
    there = MIDDLE + deliveries.files["text_encoder.tflite"]
    told = app.fetch()
    app.require_whole()
    assert told[0] == ["fetching", there, total]
    assert told[-1] == ["fetching", total, total]
    assert app.host.sent[UNET] == LARGE
    assert app.host.sent["text_encoder.tflite"] == deliveries.files["text_encoder.tflite"]


@pytest.mark.parametrize(
    "second",
    [Answer(whole=True), Answer(etag='"two"'), Answer(status=416), Answer(skew=5)],
    ids=["range ignored", "another version", "range refused", "another range"],
)
def test_a_server_that_cannot_go_on_sends_all_again(second: Answer, app: PlayedDownload) -> None:
    app.host.plan(UNET, Answer(cut=MIDDLE), second)
    app.fetch()
    app.require_whole()
    assert app.host.ranges(UNET)[1] == f"bytes={MIDDLE}-"


def test_without_a_version_the_checksum_alone_decides(app: PlayedDownload) -> None:
    for weak in (None, 'W/"one"'):
        app.host.plan(UNET, Answer(cut=MIDDLE, etag=weak), Answer(etag=weak))
        app.fetch()
        app.require_whole()
        last = [headers for name, headers in app.host.asked if name == UNET][-1]
        assert (last["Range"], last["If-Range"]) == (f"bytes={MIDDLE}-", None)
        shutil.rmtree(app.folder)


LONGER = [
    (Answer(extra=7), rf"{UNET} has {LARGE + 7} bytes and the manifest says {LARGE}; upload all of"),
    (Answer(extra=10**7, length=False), rf"{UNET} does not end after the {LARGE} bytes"),
]


@pytest.mark.parametrize(("answer", "message"), LONGER)
def test_a_server_that_sends_too_much_is_refused(answer: Answer, message: str, app: PlayedDownload) -> None:
    app.host.plan(UNET, answer)
    with pytest.raises(Refused, match=f"BadFile: .*{message}"):
        app.fetch()
    assert sum(path.stat().st_size for path in app.folder.glob(f"{UNET}*")) == 0
    app.fetch()
    app.require_whole()


def test_too_much_after_a_break_is_refused_by_what_the_range_says(app: PlayedDownload) -> None:
    app.host.plan(UNET, Answer(cut=MIDDLE))
    content = (app.host.folder / UNET).read_bytes()
    app.host.plan(UNET, *[Answer(status=500)] * 2)
    with pytest.raises(Refused, match="it answers 500"):
        app.fetch(tries=2)
    (app.host.folder / UNET).write_bytes(content + b"x")
    with pytest.raises(Refused, match=rf"{UNET} has {LARGE + 1} bytes and the manifest says {LARGE}"):
        app.fetch()


PAGE = b"<html>Please log in to this network.</html>"


def test_a_page_that_asks_to_log_in_spoils_nothing(app: PlayedDownload) -> None:
    app.host.plan(UNET, Answer(cut=MIDDLE), Answer(page=PAGE))
    with pytest.raises(Refused, match=rf"{UNET} has {len(PAGE)} bytes and the manifest says {LARGE}; upload"):
        app.fetch()
    assert app.part().stat().st_size == MIDDLE
    app.host.plan(UNET, Answer(page=PAGE, length=False))
    app.fetch()
    app.require_whole()


REFUSED = [
    (Answer(status=404), r"answers 404 \(not there\); upload all of the export's download/"),
    (Answer(status=403), r"answers 403 \(not allowed\); upload all"),
    (Answer(status=400), r"answers 400; upload all"),
    (
        Answer(status=302, location="https://example.com/unet.tflite"),
        r"redirects to https://example.com/unet.tflite, and redirects from http to https or back are not",
    ),
]


@pytest.mark.parametrize(("answer", "message"), REFUSED)
def test_what_a_server_refuses_is_a_sentence_at_once(
    answer: Answer, message: str, app: PlayedDownload
) -> None:
    app.host.plan(UNET, answer)
    with pytest.raises(Refused, match=f"BadFile: http://127.*{UNET} {message}"):
        app.fetch()
    assert len(app.host.ranges(UNET)) == 1


def test_a_redirect_on_the_same_server_is_followed(app: PlayedDownload) -> None:
    (app.host.folder / "moved.tflite").write_bytes((app.host.folder / UNET).read_bytes())
    app.host.plan(UNET, Answer(status=302, location=f"{app.host.base}moved.tflite"))
    app.fetch()
    assert app.host.sent["moved.tflite"] == LARGE


def test_a_server_that_falls_silent_is_given_up(app: PlayedDownload) -> None:
    app.host.plan(UNET, Answer(stall=0))
    with pytest.raises(Refused, match="the server did not answer in time; try again"):
        app.fetch(read=200, tries=1)


def test_nobody_at_the_address_is_a_sentence(app: PlayedDownload) -> None:
    with pytest.raises(Refused, match=r"BadFile: cannot download http://127\.0\.0\.1:9/.*: .*refused"):
        app.fetch(base="http://127.0.0.1:9/", tries=2)
    for wrong in ("file:///sd-models/", "example.com/sd-models"):
        with pytest.raises(Refused, match=r"BadRequest: .* is no address of a web server; it should be"):
            app.ask(base=wrong)


@pytest.mark.parametrize("suspend", [False, True])
def test_cancelling_ends_a_blocked_download_and_keeps_what_has_arrived(
    suspend: bool, app: PlayedDownload
) -> None:
    """The server is silent, and the app would wait for a minute; what is sent afterwards is not written."""
    app.host.plan(UNET, Answer(stall=MIDDLE))
    name = app.ask(suspend=suspend)
    assert app.host.stalled.wait(60)
    wait_for(lambda: app.part().stat().st_size == MIDDLE)
    app.jvm.ask("cancel", id=name)
    expected = "unexpected: .*CancellationException" if suspend else "Cancelled: fetching the model was"
    with pytest.raises(Refused, match=expected):
        app.result(name)
    assert (["interrupted"] in app.arrivals(name)) != suspend
    app.host.release.set()
    wait_for(lambda: app.host.sent[UNET] == LARGE)
    assert app.part().stat().st_size == MIDDLE
    app.fetch()
    app.require_whole()
    assert app.host.ranges(UNET) == [None, f"bytes={MIDDLE}-"]


def test_two_who_ask_wait_for_one_download_and_one_may_go(
    app: PlayedDownload, deliveries: Deliveries
) -> None:
    app.host.plan(UNET, Answer(stall=MIDDLE))
    first, second = app.ask(), app.ask(suspend=True)
    assert app.host.stalled.wait(60)
    app.jvm.ask("cancel", id=first)
    with pytest.raises(Refused, match="Cancelled"):
        app.result(first)
    app.host.release.set()
    assert app.result(second) == str(app.folder)
    app.require_whole()
    assert dict(app.host.sent) == deliveries.files


def test_a_process_that_is_killed_loses_nothing(app: PlayedDownload, deliveries: Deliveries) -> None:
    app.host.plan(UNET, Answer(stall=MIDDLE))
    with deliveries.start() as other:
        PlayedDownload(other, app.home, app.host).ask()
        assert app.host.stalled.wait(60)
        wait_for(lambda: app.part().stat().st_size == MIDDLE)
        other.kill()
    app.fetch()
    app.require_whole()
    assert app.host.ranges(UNET) == [None, f"bytes={MIDDLE}-"]


@pytest.mark.parametrize("at", [0, MIDDLE - 1], ids=["head", "tail"])
def test_a_part_that_is_damaged_is_thrown_away_and_that_is_said(at: int, app: PlayedDownload) -> None:
    _leave_part(app)
    content = bytearray(app.part().read_bytes())
    content[at] ^= 1
    app.part().write_bytes(content)
    with pytest.raises(
        Refused,
        match=rf"BadFile: {UNET} arrived with another SHA-256 than the manifest says and was deleted",
    ):
        app.fetch()
    assert not list(app.folder.glob(f"{UNET}*"))
    app.fetch()
    app.require_whole()


def test_a_part_that_is_too_long_begins_anew(app: PlayedDownload) -> None:
    _leave_part(app)
    app.part().write_bytes(bytes(LARGE + 1))
    told = app.fetch()
    app.require_whole()
    assert app.host.ranges(UNET)[-1] is None
    assert told[0][1] < MIDDLE


def test_a_part_with_every_byte_is_only_checked(app: PlayedDownload) -> None:
    _leave_part(app)
    app.part().write_bytes((app.host.folder / UNET).read_bytes())
    asked = len(app.host.ranges(UNET))
    app.fetch()
    app.require_whole()
    assert len(app.host.ranges(UNET)) == asked


def test_files_of_an_earlier_model_go(app: PlayedDownload, tmp_path: Path) -> None:
    app.folder.mkdir(parents=True)
    for name in ("old.tflite", f"{UNET}.0123456789abcdef.part", UNET):
        (app.folder / name).write_text("old")
    (app.folder / "vae_decoder.tflite").symlink_to(app.host.folder / "vae_decoder.tflite")
    app.fetch()
    app.require_whole()
    assert not any(path.is_symlink() for path in app.folder.iterdir())


def test_a_file_that_got_its_name_before_the_process_ended_is_not_fetched_again(app: PlayedDownload) -> None:
    app.fetch()
    shutil.rmtree(app.home / "no_backup" / "msd")
    (app.folder / NAME).unlink()
    asked = len(app.host.asked)
    app.fetch()
    app.require_whole()
    assert len(app.host.asked) == asked


def test_a_disk_that_is_too_small_is_said_before_the_first_byte(
    app: PlayedDownload, deliveries: Deliveries
) -> None:
    with tiny_disk(app.home / "no_backup", "64k"):
        needed = sum(deliveries.files.values())
        with pytest.raises(
            Refused, match=rf"NoSpace: .* needs {needed} bytes more and the disk has \d+; free"
        ):
            app.fetch()
        assert app.host.asked == []


def test_a_disk_that_fills_up_meanwhile_is_said_too(app: PlayedDownload) -> None:
    with tiny_disk(app.home / "no_backup", "1m") as disk:
        app.host.plan(UNET, Answer(stall=MIDDLE))
        name = app.ask()
        assert app.host.stalled.wait(60)
        wait_for(lambda: app.part().stat().st_size == MIDDLE)
        _fill(disk / "other")
        app.host.release.set()
        with pytest.raises(Refused, match=r"NoSpace: .* needs \d+ bytes more and the disk has \d+; free"):
            app.result(name)


def _leave_part(app: PlayedDownload) -> None:
    """Have a download break in the middle of the U-Net, for good."""
    app.host.plan(UNET, Answer(cut=MIDDLE), Answer(status=500))
    with pytest.raises(Refused, match="it answers 500"):
        app.fetch(tries=1)


def _fill(path: Path) -> None:
    path.write_bytes(bytes(disk_usage(path.parent).free))
