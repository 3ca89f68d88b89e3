"""The collector looks at what a conversion leaves alone, when it is asked, and is then as it was before."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress

import pytest

from msd.conversion.collector import OWN, collect_on_request


class Link:
    """One that can be part of a cycle."""

    me: Link


def cycle() -> weakref.ref[Link]:
    """Return a reference to what nothing but itself refers to."""
    link = Link()
    link.me = link
    return weakref.ref(link)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    gc.unfreeze()
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
