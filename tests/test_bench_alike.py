"""Two bundles whose times are compared: what is refused or said where they are not of the same work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.test_cli_bench import clockwork, run

__all__ = ["clockwork"]


def without(folder: Path, component: str, out: Path) -> Path:
    """Return a copy of a bundle that lacks a component."""
    shutil.copytree(folder, out)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["components"][component]
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


@pytest.mark.usefixtures("clockwork")
def test_other_work_is_refused_with_a_limit_and_else_said(
    bundle_folder: Path, batch_two_folder: Path
) -> None:
    """A run of two rows takes as long as two: the U-Net of one row would never be slower."""
    options = bundle_folder, "--compare", batch_two_folder, "--component", "unet"
    clause = f"{bundle_folder} takes 1 row in a run of the U-Net and {batch_two_folder} takes 2 rows in a"
    limited = run(*options, "--fail-slower", 1.1)
    assert (limited.exit_code, limited.stdout) == (1, "")
    assert f"--fail-slower compares times of the same work, but {clause}" in limited.stderr
    free = run(*options)
    assert free.exit_code == 0
    assert f"note: the times are of different work: {clause}" in free.stderr


@pytest.mark.usefixtures("clockwork")
def test_nothing_in_common_is_not_fast_enough(bundle_folder: Path, tmp_path: Path) -> None:
    other = without(bundle_folder, "unet", tmp_path / "other")
    options = bundle_folder, "--compare", other
    result = run(*options, "--component", "unet", "--fail-slower", 1.1)
    assert result.exit_code == 1
    assert "note: unet on litert-cpu was measured of one bundle alone" in result.stderr
    assert "no network was measured of both bundles, so that --fail-slower compares nothing" in result.stderr
    assert run(*options, "--component", "vae_decoder", "--fail-slower", 1.1).exit_code == 0
