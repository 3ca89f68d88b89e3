"""Threads that work ahead: results in order, within a bound, and a failure in its turn."""

from __future__ import annotations

from threading import Event, Lock, current_thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.files.ahead import Task, in_order


class Ledger:
    """Counts the bytes of tasks that are begun and not yet taken."""

    def __init__(self) -> None:
        self.lock, self.held, self.most = Lock(), 0, 0

    def task(self, number: int, size: int) -> Task[int]:
        def work() -> int:
            with self.lock:
                self.held += size
                self.most = max(self.most, self.held)
            return number

        return size, work

    def taken(self, size: int) -> None:
        with self.lock:
            self.held -= size


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=12), st.integers(1, 4), st.integers(1, 100))
def test_results_come_in_order_and_fit_the_room(sizes: list[int], threads: int, room: int) -> None:
    ledger = Ledger()
    found = []
    for result in in_order([ledger.task(n, size) for n, size in enumerate(sizes)], threads, room):
        ledger.taken(sizes[result])
        found.append(result)
    assert found == list(range(len(sizes)))
    assert ledger.most <= max([room, *sizes])


def test_one_thread_works_only_when_asked() -> None:
    done: list[str] = []
    tasks = [(1, lambda: done.append(current_thread().name)) for _ in range(3)]
    results = in_order(tasks, 1, 100)
    assert done == []
    next(results)
    assert done == [current_thread().name]


def test_two_threads_work_at_the_same_time() -> None:
    first, second = Event(), Event()

    def meet(mine: Event, other: Event) -> bool:
        mine.set()
        return other.wait(60)

    tasks = [(1, lambda: meet(first, second)), (1, lambda: meet(second, first))]
    assert list(in_order(tasks, 2, 2)) == [True, True]


def fail() -> str:
    raise OSError("the disk is gone")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_failure_comes_in_its_turn_and_ends_the_rest(threads: int) -> None:
    begun: list[int] = []
    tasks: list[Task[object]] = [(1, lambda: "fine"), (1, fail)]
    tasks += [(1, lambda n=n: begun.append(n)) for n in range(100)]  # type: ignore[misc]
    results = in_order(tasks, threads, 4)
    assert next(results) == "fine"
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)
    assert len(begun) <= 4
    assert list(results) == []
