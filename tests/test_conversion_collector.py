"""The collector is as it was after a pause, also after a failure."""

from __future__ import annotations

import gc

import pytest

from msd.conversion.collector import paused_collector


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_ends_as_it_began(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with paused_collector():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(KeyError), paused_collector():
            raise KeyError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
