"""The settings of an exported project: how the model reaches the device, and the app that contains it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from msd.errors import BadConfig, BadValue
from msd.measure.report.report import Report

Delivery = Literal["asset-pack", "ai-pack", "download", "assets"]
DELIVERIES: tuple[Delivery, ...] = get_args(Delivery)
PACKS = ("asset-pack", "ai-pack")

PACKAGE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+")
KEYWORDS = """
    abstract as assert boolean break byte case catch char class const continue default do double else enum
    extends false final finally float for fun goto if implements import in instanceof int interface is long
    native new null object package private protected public return short static strictfp super switch
    synchronized this throw throws transient true try typealias typeof val var void volatile when while
"""
"""Keywords of Java or Kotlin, which may not be parts of a package's name."""


@dataclass(frozen=True)
class AndroidSettings:
    """The settings of an export for Android.

    `package` is the app's package, `name` what a phone calls it, `min_ram` the least memory that a device
    reports in bytes, `licence` that of the weights; `steps`, `scheduler`, `guidance` and `report` are
    arguments of `msd.export.app.manifest.describe`. `app`: a whole Gradle project, not modules for an
    existing one. `expect`: a PNG of `msd generate`, which a test generates again on a phone.
    """

    delivery: Delivery = "asset-pack"
    package: str = "com.example.sd"
    min_ram: int | None = None
    steps: tuple[int, ...] = ()
    scheduler: str | None = None
    guidance: float | None = None
    licence: str | None = None
    report: Report | None = None
    app: bool = False
    expect: Path | None = None
    name: str = "Stable Diffusion"


def reported(sold: float) -> int:
    """Return the bytes of memory that a phone sold with so many GB reports to Play, at least.

    Its kernel and its firmware keep the rest: a phone with 8 GB is counted from 7·10⁹ bytes on.
    """
    return round(sold * 875_000_000)


def check(settings: AndroidSettings) -> None:
    """Raise BadConfig for settings that no app can have, BadValue for names that are none."""
    if settings.delivery not in DELIVERIES:
        raise BadValue(f"no delivery is called {settings.delivery!r}; there are {', '.join(DELIVERIES)}")
    if not PACKAGE.fullmatch(settings.package):
        raise BadValue(f"{settings.package!r} is not an app's package; it should look like com.example.sd")
    if keywords := sorted(set(settings.package.split(".")) & set(KEYWORDS.split())):
        raise BadValue(
            f"{settings.package} has {keywords[0]!r} in it, a keyword of Kotlin or Java; choose another"
        )
    if settings.package.startswith("dev.msd.") or settings.package == "dev.msd":
        raise BadValue(f"{settings.package} is the package of the library's own classes; choose another")
    if not settings.name.strip() or not settings.name.isprintable():
        raise BadValue(f"{settings.name!r} is not an app's name; it should be some words on one line")
    if settings.min_ram is not None and settings.delivery != "ai-pack":
        raise BadConfig("only AI packs select devices by memory; use --min-ram with --delivery ai-pack")
    if settings.min_ram is not None and settings.min_ram < 1:
        raise BadConfig("the least memory of a device must be positive")
