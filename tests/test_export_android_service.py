"""The service that keeps a download alive, as far as stand-ins for Android let it run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deliveries import Deliveries
from tests.jvm import Jvm, Refused
from tests.played_download import MIDDLE, UNET, PlayedDownload, played_download, wait_for
from tests.web_host import Answer

REDELIVER, NOT_STICKY, DATA_SYNC = 3, 2, 1


@pytest.fixture
def app(deliveries: Deliveries, played: Jvm, tmp_path: Path) -> Iterator[PlayedDownload]:
    with played_download(deliveries, played, tmp_path) as app:
        yield app


def service(app: PlayedDownload, event: str, **options: Any) -> Any:
    """Have Android do something to the service; return what it answers, or what is seen of it."""
    return app.jvm.ask("service", event=event, home=str(app.home), base=app.host.base, **options)


def stalled(app: PlayedDownload) -> str:
    """Ask for the model, have the server stall and Android start the service; return a name for it."""
    app.host.plan(UNET, Answer(stall=MIDDLE))
    name = app.ask()
    assert app.host.stalled.wait(60)
    wait_for(lambda: app.part().stat().st_size == MIDDLE)
    assert service(app, "start") == REDELIVER
    return name


def test_the_service_shows_how_far_the_download_is_and_ends_with_it(app: PlayedDownload) -> None:
    name = stalled(app)
    wait_for(lambda: service(app, "see")["percent"] >= 0)
    seen = service(app, "see")
    assert (seen["stopped"], seen["type"], seen["actions"]) == (False, DATA_SYNC, 1)
    app.host.release.set()
    app.result(name)
    wait_for(lambda: service(app, "see")["stopped"])
    app.require_whole()


def test_cancelling_in_the_notification_is_told_to_the_app(app: PlayedDownload) -> None:
    name = stalled(app)
    assert service(app, "cancel") == NOT_STICKY
    with pytest.raises(Refused, match="Cancelled: the download was cancelled in its notification"):
        app.result(name)
    assert service(app, "see")["stopped"]
    assert app.part().stat().st_size == MIDDLE


def test_after_six_hours_the_download_ends_and_goes_on_later(app: PlayedDownload) -> None:
    name = stalled(app)
    service(app, "timeout")
    with pytest.raises(Refused, match="Cancelled: Android ends downloads after six hours in the background"):
        app.result(name)
    assert service(app, "see")["stopped"]
    app.fetch()
    assert app.host.ranges(UNET) == [None, f"bytes={MIDDLE}-"]


def test_a_service_that_android_starts_again_downloads_by_itself(app: PlayedDownload) -> None:
    assert service(app, "start", again=True) == REDELIVER
    wait_for(lambda: service(app, "see")["stopped"])
    app.require_whole()
    assert app.fetch() == []


def test_an_app_that_cancels_before_its_service_starts_ends_the_download(app: PlayedDownload) -> None:
    app.host.plan(UNET, Answer(stall=MIDDLE))
    name = app.ask()
    assert app.host.stalled.wait(60)
    app.jvm.ask("cancel", id=name)
    with pytest.raises(Refused, match="Cancelled"):
        app.result(name)
    asked = len(app.host.asked)
    assert service(app, "start") == REDELIVER
    wait_for(lambda: service(app, "see")["stopped"])
    assert len(app.host.asked) == asked


def test_without_a_service_the_download_lasts_as_long_as_the_process(app: PlayedDownload) -> None:
    app.fetch(visible=False)
    app.require_whole()
    assert service(app, "started", visible=False) == 0


def test_a_service_that_may_not_be_in_the_foreground_stops(app: PlayedDownload) -> None:
    assert service(app, "start", again=True, forbidden=True) == NOT_STICKY
    assert service(app, "see")["stopped"]
    assert app.host.asked == []
