"""The collector is as it was after a pause, also after a failure."""

from __future__ import annotations

import gc
import weakref

import pytest

from msd.conversion.collector import paused_collector, settled_memory


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


class Link:
    """One that can be part of a cycle."""

    me: Link


def test_graphs_are_freed_once_they_are_done_with() -> None:
    before, link = gc.get_freeze_count(), Link()
    link.me, gone = link, weakref.ref(link)
    with settled_memory() as settle:
        assert gc.get_freeze_count() > before
        del link
        gc.collect()
        assert gone() is not None
        settle()
        assert gone() is None
    assert gc.get_freeze_count() == 0
