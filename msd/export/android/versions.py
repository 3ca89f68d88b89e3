"""The versions of tools and libraries that exported Gradle files name, and Google Play's limits."""

from __future__ import annotations

from dataclasses import dataclass

from msd.export.android.manifest import RUNTIME


@dataclass(frozen=True)
class Versions:
    """The versions that fit LiteRT `as_of`; device targeting needs `gradle_plugin` 8.10 or later."""

    as_of: str = "LiteRT 2.3.0"
    gradle: str = "9.2.1"
    gradle_plugin: str = "9.1.0"
    jdk: int = 17
    kotlin: str = "2.4.20"
    coroutines: str = "1.8.0"
    junit: str = "4.13.2"
    test_runner: str = "1.6.2"
    litert: str = RUNTIME
    asset_delivery: str = "2.3.0"
    ai_delivery: str = "0.1.1-alpha01"
    min_sdk: int = 24
    compile_sdk: int = 36
    target_sdk: int = 36


@dataclass(frozen=True)
class Limits:
    """Google Play's limits of the compressed download in bytes: of a pack, all packs, and the app itself."""

    pack: int = 1_500_000_000
    packs: int = 4_000_000_000
    app: int = 200_000_000


VERSIONS = Versions()
LIMITS = Limits()
