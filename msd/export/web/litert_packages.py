"""npm's packages of LiteRT.js, fetched once into the cache folder."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

from msd.errors import BadConfig
from msd.files.cache import cache_root
from msd.files.staging import beside, staging_folder

VERSION = "2.5.3"
CORE, UTILS = "@litertjs/core", "@litertjs/wasm-utils"
INTEGRITY = {
    CORE: "sha512-PlGmbMOq9WitX7FO0jhbdJw9GthatsyuCQXjTt/wJZo0FLaw48q4tz8IwqgqCIkviYGr9OFDL1kCnN4nzWoyJQ==",
    UTILS: "sha512-4fJiw6tBQnIs+0jH/OQ16nYOiSl8/+zZnn5h2ul8aTKHi05sVqZW580Tmk78pC2kT39A9OYBVdFawteZ/sI1kQ==",
}
"""The hash of each package, as npm's lock files have it."""

NEEDS = "LiteRT.js is fetched by npm"
REMEDY = "install npm, or give a folder with the packages as --litert-js"


def fetched_packages() -> Path:
    """Return a folder with the packages; raises BadConfig where npm cannot fetch them."""
    folder = cache_root() / f"litert-js-{VERSION}"
    if folder.is_dir():
        return folder
    if shutil.which("npm") is None:
        raise BadConfig(f"{NEEDS}, which this machine does not have; {REMEDY}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with staging_folder(beside(folder), folder, wait=True) as scratch:
            unpacked = scratch / folder.name
            for package in INTEGRITY:
                _unpack(_pack(package, scratch), unpacked / package)
            if not folder.is_dir():
                unpacked.rename(folder)
    except OSError as problem:
        raise BadConfig(
            f"LiteRT.js cannot be unpacked into {folder}: {problem.strerror or problem}"
        ) from None
    return folder


def _pack(package: str, scratch: Path) -> Path:
    """Return the archive of a package, fetched into `scratch`, whose hash is the one in INTEGRITY."""
    command = ["npm", "pack", f"{package}@{VERSION}", "--json", "--ignore-scripts"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise BadConfig(f"npm cannot fetch {package} {VERSION}: {_words(done.stderr)}; {REMEDY}")
    archive = scratch / Path(json.loads(done.stdout)[0]["filename"]).name
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != INTEGRITY[package]:
        raise BadConfig(
            f"{package} {VERSION} as npm fetched it is not the one msd knows: its SHA-512 differs"
        )
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack npm's archive, whose files are all below package/."""
    with tarfile.open(archive) as opened:
        opened.extractall(archive.parent, filter="data")
    folder.parent.mkdir(parents=True, exist_ok=True)
    (archive.parent / "package").rename(folder)


def _words(text: str) -> str:
    """Return npm's first error, without its mark."""
    lines = [line.removeprefix("npm error").strip() for line in text.splitlines() if "error" in line.lower()]
    return next((line for line in lines if line and not line.startswith("code ")), "it says nothing")
