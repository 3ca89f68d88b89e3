"""How the model reaches the phone: sources, manifest entries, resources and libraries of each delivery."""

from __future__ import annotations

from collections.abc import Sequence

from msd.export.android.packs import Pack
from msd.export.android.settings import Delivery
from msd.export.android.templates import fill, kotlin_in

PLACEHOLDER = "not-for-this-device.txt"
"""The file in a pack for devices that get no model; aapt2 drops files whose names begin with a dot."""
LIBRARIES: dict[Delivery, tuple[str, ...]] = {
    "asset-pack": ("asset-delivery",),
    "ai-pack": ("ai-delivery", "asset-delivery"),
    "download": (),
    "assets": (),
}
"""Google Play's libraries, by their names there and in a version catalog.

The dialog that asks for consent is that of asset packs for AI packs, too.
"""
FOLDERS: dict[Delivery, tuple[str, ...]] = {
    "asset-pack": ("packs",),
    "ai-pack": ("packs",),
    "download": ("installed", "download"),
    "assets": ("installed", "assets"),
}
"""The folders with a delivery's sources, below templates/delivery/, which itself has those of all."""


def sources(delivery: Delivery, packs: Sequence[Pack]) -> dict[str, str]:
    """Return the Kotlin sources of a delivery by file name."""
    prefix = "Ai" if delivery == "ai-pack" else "Asset"
    gaps = {
        "kind": prefix,
        "library": f"{prefix.lower()}packs",
        "packs": ", ".join(f'"{pack.name}"' for pack in packs),
        "placeholder": PLACEHOLDER,
    }
    folders = ("delivery", *(f"delivery/{name}" for name in FOLDERS[delivery]))
    return {name: fill(f"{folder}/{name}", **gaps) for folder in folders for name in kotlin_in(folder)}


def manifest_entries(delivery: Delivery) -> str:
    """Return the permissions and services that a delivery adds to the library's AndroidManifest.xml."""
    return fill("delivery/download/AndroidManifest.xml") if delivery == "download" else ""


def resources(delivery: Delivery) -> dict[str, str]:
    """Return a delivery's resources by their paths in res/."""
    return {"values/msd_strings.xml": fill("delivery/download/strings.xml")} if delivery == "download" else {}


def dependencies(delivery: Delivery, catalog: str) -> str:
    """Return the lines of a Gradle file, each after a line break, that name a delivery's libraries."""
    aliases = (name.replace("-", ".") for name in LIBRARIES[delivery])
    return "".join(f"\n    implementation({catalog}.{alias})" for alias in aliases)


def placeholder(min_ram: int) -> str:
    """Return the text of the file in a pack for devices with less memory than `min_ram` bytes."""
    return f"Devices with less than {min_ram} bytes of memory get no model.\n"
