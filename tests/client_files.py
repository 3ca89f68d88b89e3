"""An interface of a user's own, in a file."""

from __future__ import annotations

from pathlib import Path

OWN = """
description = "mine"
source = "https://example.org"
[networks.vae_decoder]
signature = "decode"
inputs = [{ name = "z", of = "latent", layout = "NCHW" }]
outputs = [{ name = "rgb", of = "image" }]
"""


def own_file(tmp_path: Path, text: str = OWN) -> Path:
    (tmp_path / "mine.toml").write_text(text, "utf-8")
    return tmp_path / "mine.toml"
