"""The versions of tools and libraries that exported Gradle files name, and Google Play's limits.

docs/android-apis.md names the page of each, and why they fit each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from msd.export.app.manifest import RUNTIME


@dataclass(frozen=True)
class Versions:
    """Versions that fit each other and LiteRT `as_of`.

    `gradle` is the least that `gradle_plugin` takes, `gradle_sha256` that of its distribution "bin". `kotlin`
    replaces the plugin's own, and its classes need R8 9.1.29; the plugin brings the R8 of its own number.
    `coroutines` are those that tests compile against.
    """

    as_of: str = "LiteRT 2.3.0"
    gradle: str = "9.6.0"
    gradle_sha256: str = "bbaeb2fef8710818cf0e261201dab964c572f92b942812df0c3620d62a529a01"
    gradle_plugin: str = "9.4.0"
    build_tools: str = "36.0.0"
    jdk: int = 17
    kotlin: str = "2.4.20"
    coroutines: str = "1.8.0"
    litert: str = RUNTIME
    asset_delivery: str = "2.3.0"
    ai_delivery: str = "0.1.1-alpha01"
    junit: str = "4.13.2"
    test_runner: str = "1.7.0"
    min_sdk: int = 24
    compile_sdk: int = 36
    target_sdk: int = 36


@dataclass(frozen=True)
class Limits:
    """Google Play's limits of the compressed download in bytes: a pack, all packs, the app's base module.

    `read`: when its page stated them.
    """

    pack: int = 1_500_000_000
    packs: int = 4_000_000_000
    app: int = 500_000_000
    read: str = "November 2026"


VERSIONS = Versions()
LIMITS = Limits()
