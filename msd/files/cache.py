"""The cache folder of msd, for files that can be made or fetched again: traced structures, SwiftShader."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Return the folder that MSD_CACHE names, or else msd's own in the user's cache folder."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("MSD_CACHE")
    return Path(chosen) if chosen else user_cache_path("msd")
