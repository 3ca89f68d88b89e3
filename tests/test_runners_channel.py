"""Messages between two processes: arrays arrive as they were sent, through memory that both map."""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

from msd.run.runners.channel import LEAST, Channel


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    one, other = Pipe()
    with one, other:
        found = Channel(one), Channel(other)
        yield found
        for channel in found:
            channel.close()


def arrays(seed: int, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "whole": rng.standard_normal((3, count, 5), np.float32),
        "halves": rng.standard_normal(2 * count).astype(np.float16),
        "integers": rng.integers(-9, 9, (count, 3), np.int64),
        "columns first": np.asfortranarray(rng.standard_normal((count, 7))),
        "every second": rng.standard_normal((6, 4))[::2, 1:],
        "one": np.array(2.5),
        "none": np.empty((0, 4), np.float32),
    }


def same(found: dict[str, Any], sent: dict[str, Any]) -> None:
    assert found.keys() == sent.keys()
    for name, array in sent.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable


@pytest.mark.parametrize("count", [1, 8, LEAST // 4, LEAST, 50_000])
def test_arrays_arrive_as_they_were_sent(channels: tuple[Channel, Channel], count: int) -> None:
    sent = arrays(1, count)

    channels[0].send(sent)

    same(channels[1].receive(), sent)


def test_messages_of_both_directions_and_all_sizes_follow_each_other(
    channels: tuple[Channel, Channel],
) -> None:
    for number, count in enumerate((1, 3000, 10, 90_000, 2, 40_000)):
        sender, receiver = channels[:: 1 if number % 2 else -1]
        sent = arrays(number, count)

        sender.send([number, sent])

        found, received = receiver.receive()
        assert found == number
        same(received, sent)


def test_what_was_received_does_not_change_when_the_next_message_comes(
    channels: tuple[Channel, Channel],
) -> None:
    first, second = arrays(1, 2000), arrays(2, 2000)
    channels[0].send(first)
    found = channels[1].receive()

    channels[0].send(second)

    same(found, first)
    same(channels[1].receive(), second)


LARGE = np.arange(22_500, dtype=np.float32).reshape(150, 150)
"""90 kB: a socket holds two of them, so that one which passes it fails a test and does not stop it."""


@pytest.mark.parametrize(
    "array",
    [LARGE, LARGE.T, LARGE[::2], LARGE[:, ::-1], LARGE[:, 1:], np.broadcast_to(LARGE[0], (50, 150))],
    ids=["whole", "transposed", "every second row", "mirrored", "cut", "repeated"],
)
def test_large_arrays_do_not_pass_the_socket(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch, array: np.ndarray[Any, Any]
) -> None:
    passed = []
    send = Connection.send

    def watched(self: Connection, message: Any) -> None:
        passed.append(len(message[0]))
        send(self, message)

    monkeypatch.setattr(Connection, "send", watched)
    sent = {"large": array, "again": array}

    channels[0].send(sent)

    assert max(passed) < LEAST
    found = channels[1].receive()
    same(found, sent)
    assert found["large"] is found["again"]


def test_arrays_of_objects_arrive(channels: tuple[Channel, Channel]) -> None:
    words = np.array(["one", None, "three", "four"], object)

    channels[0].send(words[::2])

    assert channels[1].receive().tolist() == ["one", "three"]


def test_what_interrupts_a_first_message_leaves_the_next_whole(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Connection, message: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            channels[0].send(arrays(1, 3000))
    sent = arrays(2, 2000)

    channels[0].send(sent)

    same(channels[1].receive(), sent)


def test_a_closed_end_is_an_error(channels: tuple[Channel, Channel]) -> None:
    one, other = Pipe()
    other.close()
    with one, pytest.raises(ConnectionError):
        Channel(one).send(1)
    with one:
        pass
    one, other = Pipe()
    one.close()
    with other, pytest.raises(EOFError):
        Channel(other).receive()


def test_no_file_stays_open(channels: tuple[Channel, Channel]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    one, other = Pipe()
    sender, receiver = Channel(one), Channel(other)
    sender.send(arrays(0, 9000))
    receiver.receive()
    for each in (sender, receiver, one, other):
        each.close()

    assert len(os.listdir("/proc/self/fd")) == before
