"""What `msd serve` says of a folder that is no page."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from msd.cli.serve import serve


def test_a_bundle_is_led_to_its_page(bundle_folder: Path) -> None:
    result = CliRunner().invoke(serve, [str(bundle_folder)])
    assert result.exit_code == 1
    page = f"{bundle_folder}-page"
    assert f"first msd export-web {bundle_folder} -o {page}, then msd serve {page}" in result.stderr
