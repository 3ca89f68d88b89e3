"""The collector looks at what a conversion leaves alone, when it is asked, and is then as it was before."""

from __future__ import annotations

import ctypes
import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from msd.conversion.collector import OWN, collect_on_request
from tests.garbage import count_frozen


class Link:
    """One that can be part of a cycle."""

    me: Link


def cycle() -> weakref.ref[Link]:
    """Return a reference to what nothing but itself refers to."""
    link = Link()
    link.me = link
    return weakref.ref(link)


@pytest.fixture(autouse=True)
def _collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gc, "get_freeze_count", count_frozen)
    was_enabled, was_frozen = gc.isenabled(), count_frozen() > OWN
    gc.disable()
    gc.unfreeze()
    yield
    gc.unfreeze()
    if was_frozen:
        gc.freeze()
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_is_left_as_it_was(enabled: bool, fails: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with suppress(KeyError), collect_on_request():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > OWN
        if fails:
            raise KeyError
    assert gc.isenabled() == enabled
    assert gc.get_freeze_count() < OWN


def test_graphs_are_freed_on_request_alone() -> None:
    with collect_on_request() as collect:
        gone = cycle()
        _ = [[] for _ in range(200_000)]
        assert gone() is not None
        collect()
        assert gone() is None


def test_what_was_there_before_is_not_looked_at() -> None:
    before = cycle()
    with collect_on_request() as collect:
        collect()
        assert before() is not None
    gc.collect()
    assert before() is None


def test_what_the_caller_has_frozen_stays_frozen() -> None:
    before = cycle()
    gc.freeze()
    with collect_on_request() as collect:
        gone = cycle()
        collect()
        assert gone() is None
    gc.collect()
    assert before() is not None


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc keeps memory")
def test_what_lies_free_between_other_blocks_goes_back_to_the_system() -> None:
    with collect_on_request() as collect:
        kept = [bytearray(b"1" * 40_000) for _ in range(2000)]
        del kept[:-1]
        before = resident()
        collect()
        assert resident() < before - 40_000_000


def test_other_c_libraries_free_by_themselves() -> None:
    with patch("ctypes.CDLL", lambda name: object()), collect_on_request() as collect:
        gone = cycle()
        collect()
        assert gone() is None
