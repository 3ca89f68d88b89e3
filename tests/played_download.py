"""An app on a JVM that downloads its model from a server on this machine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from msd.export.app.manifest import NAME
from tests.deliveries import Deliveries
from tests.jvm import Jvm
from tests.web_host import WebHost, web_host

UNET = "unet.tflite"
MIDDLE = 150_000
"""A place in the U-Net's file."""
IDS = map(str, count())


class PlayedDownload:
    """An app in `home` that downloads from `host`."""

    def __init__(self, jvm: Jvm, home: Path, host: WebHost) -> None:
        self.jvm, self.home, self.host = jvm, home, host
        self.folder = home / "no_backup" / "sd-models"

    def ask(self, **options: Any) -> str:
        """Begin to ask for the model, and return a name for that."""
        name = next(IDS)
        self.jvm.ask(
            "ask", id=name, kind="download", home=str(self.home), **{"base": self.host.base, **options}
        )
        return name

    def result(self, name: str) -> str:
        """Wait; return the folder or raise Refused."""
        found: str = self.jvm.ask("result", id=name)
        return found

    def arrivals(self, name: str) -> list[list[Any]]:
        """Return what was told so far."""
        found: list[list[Any]] = self.jvm.ask("arrivals", id=name)
        return found

    def fetch(self, **options: Any) -> list[list[Any]]:
        """Ask, wait, and return what was told; raises Refused."""
        name = self.ask(**options)
        assert self.result(name) == str(self.folder)
        return self.arrivals(name)

    def part(self) -> Path:
        """Where the U-Net's bytes are while some are missing."""
        (path,) = self.folder.glob(f"{UNET}.*.part")
        return path

    def require_whole(self) -> None:
        """Assert that all files are there as the server has them, and nothing else."""
        names = {*self.host_files(), NAME}
        assert {path.name for path in self.folder.iterdir()} == names
        for name in names:
            assert (self.folder / name).read_bytes() == (self.host.folder / name).read_bytes()

    def host_files(self) -> set[str]:
        return {path.name for path in self.host.folder.iterdir()} - {NAME, "SHA256SUMS"}


@contextmanager
def played_download(deliveries: Deliveries, jvm: Jvm, folder: Path) -> Iterator[PlayedDownload]:
    """Yield a new app in `folder`, and serve it a copy of the model."""
    shutil.copytree(deliveries.site, folder / "site")
    home = deliveries.home(folder / "home", "download")
    with web_host(folder / "site") as host:
        yield PlayedDownload(jvm, home, host)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for what another process does; the time limit of tests ends what never happens."""
    while not condition():
        time.sleep(0.01)
