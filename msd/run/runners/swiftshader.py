"""SwiftShader: a Vulkan device in software, so that the GPU delegate runs on a machine without a GPU.

Chromium contains it: `libvk_swiftshader.so`, its ICD file for Vulkan's loader, and a loader. An installed
browser's copy is used where there is one; else the system's package manager downloads Debian's
`chromium-common` package, without root's rights, and those three files are kept in the user's cache.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msd.errors import NoDelegate
from msd.files.cache import cache_root
from msd.files.staging import beside, staging_folder

LIBRARY, ICD, LOADER = "libvk_swiftshader.so", "vk_swiftshader_icd.json", "libvulkan.so.1"
PACKAGE = "chromium-common"
ORIGIN = "origin.txt"
BROWSERS = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SwiftShader:
    """A folder with the three files, and where they come from in words."""

    folder: Path
    origin: str


def cache_folder() -> Path:
    """Return the folder of an unpacked copy, inside the cache folder that MSD_CACHE moves."""
    return cache_root() / "swiftshader"


def locate() -> SwiftShader | None:
    """Return a copy that is already on this machine, or None."""
    for folder in map(Path, BROWSERS):
        if _complete(folder):
            return SwiftShader(folder, f"SwiftShader of the browser in {folder}")
    folder = cache_folder()
    if _complete(folder):
        return SwiftShader(folder, (folder / ORIGIN).read_text().strip())
    return None


def install() -> SwiftShader:
    """Download a copy into the user's cache and return it; raises NoDelegate with the reason."""
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise NoDelegate(f"SwiftShader cannot be fetched: this system has no {' and no '.join(missing)}")
    folder = cache_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with staging_folder(beside(folder), folder, wait=True) as scratch:
            package = _download(scratch)
            unpacked = scratch / folder.name
            _unpack(package, unpacked)
            shutil.rmtree(folder, ignore_errors=True)
            unpacked.rename(folder)
    except OSError as problem:
        raise NoDelegate(
            f"SwiftShader cannot be unpacked into {folder}: {problem.strerror or problem}"
        ) from None
    log.info("SwiftShader is now in %s.", folder)
    return SwiftShader(folder, (folder / ORIGIN).read_text().strip())


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (LIBRARY, ICD, LOADER))


def _download(scratch: Path) -> Path:
    """Return the package file, downloaded into `scratch`."""
    log.info("Fetching SwiftShader: Debian's package %s, about 27 MB.", PACKAGE)
    words = _apt(scratch, "download", PACKAGE)
    if words is not None and os.geteuid() == 0:
        log.info("Refreshing the package lists first.")
        words = _apt(scratch, "update") or _apt(scratch, "download", PACKAGE)
    if words is not None:
        raise NoDelegate(f"SwiftShader cannot be fetched: apt-get says “{words}”")
    return next(scratch.glob("*.deb"))


def _apt(scratch: Path, *arguments: str) -> str | None:
    """Run apt-get in `scratch`; returns None if it succeeds, else its last line of output."""
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *arguments]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return None
    return next(_lines_from_last(done.stderr), f"exit code {done.returncode}")


def _lines_from_last(text: str) -> Iterator[str]:
    yield from (line.removeprefix("E: ").strip() for line in reversed(text.splitlines()) if line.strip())


def _unpack(package: Path, folder: Path) -> None:
    """Extract the three files from the Debian `package` and record their origin."""
    folder.mkdir()
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = Path(member.name).name
            if name in (LIBRARY, ICD, LOADER) and (content := archive.extractfile(member)):
                (folder / name).write_bytes(content.read())
    if not _complete(folder):
        raise NoDelegate(f"The package {package.name} holds no SwiftShader; install a Vulkan driver instead")
    version = package.name.split("_")[1].replace("%3a", ":")
    (folder / ORIGIN).write_text(f"SwiftShader of Debian's {PACKAGE} {version}\n")
