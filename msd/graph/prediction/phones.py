"""Phones by the names of their makers, and the device description of each one's GPU: configs/phones.toml."""

from __future__ import annotations

from dataclasses import dataclass

from msd.files import bounded
from msd.files.configs import CONFIGS


@dataclass(frozen=True)
class KnownPhone:
    """A phone's name, its GPU, the name of the description in configs/devices/, and the source of the GPU."""

    name: str
    gpu: str
    device: str
    source: str


def phones() -> tuple[KnownPhone, ...]:
    """Return all phones of which the GPU is known."""
    return tuple(
        KnownPhone(name, **facts) for name, facts in bounded.read_toml(CONFIGS / "phones.toml").items()
    )


def find_phone(name: str) -> KnownPhone | None:
    """Return the phone of that name, whatever its capitals, with hyphens or spaces, or None."""
    wanted = " ".join(name.replace("-", " ").split()).casefold()
    return next((phone for phone in phones() if phone.name.casefold() == wanted), None)
