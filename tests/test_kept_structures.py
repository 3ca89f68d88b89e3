"""What the tests keep of traced structures is what tracing gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from msd.models.structure import load_structure
from msd.models.structure_cache import network_key
from msd.models.trace import trace
from tests import checkpoints
from tests.kept_structures import ARCHIVE, pack, unpack
from tests.stable_diffusion import networks_for, public_configs


def test_what_is_there_stays_and_the_rest_is_written(tmp_path: Path) -> None:
    folder, again = tmp_path / "one" / "structures", tmp_path / "again.zip"
    unpack(ARCHIVE, folder)
    first, *others = sorted(folder.iterdir())
    assert len(others) > 100
    load_structure(first)
    first.write_bytes(b"mine")
    others[0].unlink()
    unpack(ARCHIVE, folder)
    assert first.read_bytes() == b"mine"
    load_structure(others[0])
    unpack(ARCHIVE, tmp_path / "two")
    pack(tmp_path / "two", again)
    assert again.read_bytes() == ARCHIVE.read_bytes()


@pytest.mark.parametrize("component", ["text_encoder", "unet"])
def test_what_is_kept_is_what_tracing_gives(component: str, tmp_path: Path) -> None:
    network = networks_for(public_configs(checkpoints.TINY))[component]
    unpack(ARCHIVE, tmp_path)
    kept = tmp_path / f"{network_key(network)}.zip"
    if not kept.exists():
        pytest.skip("structures.zip is of other code or libraries: tests/kept_structures.py makes it anew")
    assert load_structure(kept) == trace(network.build, network.inputs)
