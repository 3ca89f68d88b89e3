"""When networks are loaded and freed, on real interpreters and the real delegate; no picture is changed."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.errors import BadModelFile
from msd.gpu.phases import Phase
from msd.run.runtime.execution import EXECUTIONS, Execution, NetworksInMemory
from msd.run.runtime.pipeline import LARGE, Pipeline
from msd.run.runtime.request import Request
from msd.run.runtime.timeline import Timeline, TimelineRecorder

REQUESTS = [Request("three red circles", seed=1, steps=4), Request("dogs", "grey", 2, 3, guidance=1.0)]


def drawn(folder: Path, execution: Execution, backend: str = "cpu") -> tuple[list[np.ndarray], Timeline]:
    """The pixels of two calls, the second of one picture, and what was recorded."""
    with (
        TimelineRecorder(execution) as recorder,
        Pipeline(open_bundle(folder), backend, execution=execution, recorder=recorder) as pipeline,  # type: ignore[arg-type]
    ):
        pictures = [*pipeline.generate_all(REQUESTS), *pipeline.generate_all(REQUESTS[1:])]
    return [picture.pixels for picture in pictures], recorder.timeline


def when(timeline: Timeline, component: str, activity: str) -> list[tuple[float, float]]:
    return [
        (event.begin, event.end)
        for event in timeline.events
        if (event.component, event.activity) == (component, activity)
    ]


@pytest.mark.parametrize(
    ("folder", "large"), [("batch_two_folder", LARGE), ("sinusoids_folder", 0), ("demo_int8", LARGE)]
)
def test_every_execution_draws_the_same_bits(
    folder: str, large: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of networks in this process, and of networks with processes of their own."""
    monkeypatch.setattr("msd.run.runtime.pipeline.LARGE", large)
    path = request.getfixturevalue(folder)
    pipelined, sequential, resident = (drawn(path, execution)[0] for execution in EXECUTIONS)
    assert len(pipelined) == 3
    for a, b, c in zip(pipelined, sequential, resident, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)
    assert np.array_equal(pipelined[1], pipelined[2])
    assert not np.array_equal(pipelined[0], pipelined[1])


def test_every_execution_draws_the_same_bits_on_the_gpu(bundle_folder: Path) -> None:
    first, *others = (drawn(bundle_folder, execution, "gpu")[0] for execution in EXECUTIONS)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_sequential_has_one_network_at_a_time(bundle_folder: Path) -> None:
    _, timeline = drawn(bundle_folder, "sequential")
    held: set[str] = set()
    for event in timeline.events:
        if event.activity == "load":
            held.add(event.component)
        assert held == {event.component}
        if event.activity == "unload":
            held.clear()
    assert [len(when(timeline, "unet", kind)) for kind in ("load", "run", "unload")] == [2, 14, 2]


def test_resident_loads_once_at_the_start_and_keeps(bundle_folder: Path) -> None:
    _, timeline = drawn(bundle_folder, "resident")
    kinds = [event.activity for event in timeline.events]
    assert kinds == ["load"] * 3 + ["run"] * (len(kinds) - 6) + ["unload"] * 3


def test_pipelined_loads_while_another_runs_and_frees_when_done(bundle_folder: Path) -> None:
    _, timeline = drawn(bundle_folder, "pipelined")
    runs, decoder = when(timeline, "unet", "run"), when(timeline, "vae_decoder", "load")
    last_step = runs[10 - 1][0]
    assert runs[0][0] < decoder[0][0] <= last_step + 0.5
    encoder_freed, first_step = when(timeline, "text_encoder", "unload")[0], runs[0]
    assert encoder_freed[1] <= first_step[0]
    assert when(timeline, "unet", "unload")[0][1] <= when(timeline, "vae_decoder", "run")[0][0]


def test_a_prefetched_network_is_loaded_by_the_child_thread_while_this_one_works() -> None:
    with networks("pipelined") as (held, threads, owner):
        owner.prefetch("unet")
        owner.take("unet")
        owner.prefetch("unet")
        assert held == ["unet"]
        owner.release("unet")
        assert held == []
    assert threads == ["msd-loader_0"]


@pytest.mark.parametrize("execution", ["sequential", "resident"])
def test_only_pipelined_loads_ahead(execution: Execution) -> None:
    with networks(execution) as (held, _, owner):
        owner.prefetch("unet")
        owner.prefetch_in_time("unet", 1, 1.0)
        owner.take("vae_decoder")
        assert held == ["vae_decoder"]


def test_the_decoder_is_loaded_when_what_is_left_just_suffices() -> None:
    with networks("pipelined", seconds=0.1) as (held, _, owner):
        owner.take("unet")  # 100 bytes in 0.1 s: the decoder's 10 bytes will take 0.01 s, or twice that
        owner.prefetch_in_time("vae_decoder", 10, 0.02)
        assert owner.loading == ("unet",)
        owner.prefetch_in_time("vae_decoder", 10, 0.001)
        assert owner.loading == ("unet", "vae_decoder")
    assert held == []
    with networks("pipelined", seconds=0.1) as (_, _, owner):
        owner.take_all(["unet", "text_encoder"])  # 30 bytes took as long as 100: the decoder will too
        owner.prefetch_in_time("vae_decoder", 10, 0.03)
        assert owner.loading == ("unet", "text_encoder")
        owner.prefetch_in_time("vae_decoder", 10, 0.015)
        assert owner.loading[2:] == ("vae_decoder",)
    with networks("pipelined") as (_, _, owner):
        owner.prefetch_in_time("vae_decoder", 1, 100.0)
        assert owner.loading == ("vae_decoder",)


def test_two_networks_are_loaded_side_by_side() -> None:
    with networks("pipelined", together=2) as (held, threads, owner):
        owner.prefetch("text_encoder")
        owner.prefetch("unet")
        owner.take("text_encoder")
        assert sorted(held) == ["text_encoder", "unet"]
    assert sorted(threads) == ["msd-loader_0", "msd-loader_1"]


def test_what_fails_in_the_child_thread_is_raised_where_it_is_taken() -> None:
    with networks("pipelined", broken="vae_decoder") as (held, _, owner):
        owner.take("unet")
        owner.prefetch("vae_decoder")
        with pytest.raises(BadModelFile, match="vae_decoder is damaged"):
            owner.take("vae_decoder")
    assert held == []


def test_closing_gives_up_what_is_being_loaded() -> None:
    with networks("pipelined", seconds=60.0) as (held, _, owner):
        owner.prefetch("unet")
        owner.prefetch("vae_decoder")
    assert held == []


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_damaged_decoder_is_one_sentence_and_frees_all(
    execution: Execution, bundle_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "bundle")
    path = folder / "vae_decoder.tflite"
    path.write_bytes(b"\0" * path.stat().st_size)
    with (
        TimelineRecorder(execution) as recorder,
        pytest.raises(BadModelFile, match=r"vae_decoder\.tflite"),
        Pipeline(open_bundle(folder), execution=execution, recorder=recorder) as pipeline,
    ):
        pipeline.generate_all(REQUESTS)
    assert_all_freed(recorder.timeline, failed={"vae_decoder"})


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_an_interruption_between_steps_frees_all(execution: Execution, bundle_folder: Path) -> None:
    def interrupt(done: int, total: int, seconds: float) -> None:
        if done == 6:
            raise KeyboardInterrupt

    earlier = set(threading.enumerate())
    with (
        TimelineRecorder(execution) as recorder,
        pytest.raises(KeyboardInterrupt),
        Pipeline(open_bundle(bundle_folder), execution=execution, recorder=recorder) as pipeline,
    ):
        pipeline.generate_all(REQUESTS, interrupt)
    assert_all_freed(recorder.timeline)
    left = set(threading.enumerate()) - earlier
    assert not [thread for thread in left if thread.name.startswith("msd-loader")]


def assert_all_freed(timeline: Timeline, failed: frozenset[str] | set[str] = frozenset()) -> None:
    loaded, freed = (
        [event.component for event in timeline.events if event.activity == kind]
        for kind in ("load", "unload")
    )
    assert sorted(set(loaded) - failed) == sorted(freed)


class FakeNetwork(str):
    """A network that is just its name."""

    opening: tuple[Phase, ...] = ()


@contextmanager
def networks(
    execution: Execution, seconds: float = 0.0, broken: str = "", together: int = 1
) -> Iterator[tuple[list[str], list[str], NetworksInMemory]]:
    """Which stand-ins are held, which threads, and their owner.

    Loading takes `seconds`, or until stopped; `together` of them wait for each other.
    """
    held: list[str] = []
    threads: list[str] = []
    meeting = threading.Barrier(together)

    @contextmanager
    def opened(name: str, stop: Event) -> Iterator[FakeNetwork]:
        threads.append(threading.current_thread().name)
        if stop.wait(seconds) or name == broken:
            raise BadModelFile(f"{name} is damaged")
        held.append(name)
        meeting.wait(60)
        yield FakeNetwork(name)
        held.remove(name)

    def open_network(name: str, stop: Event) -> AbstractContextManager[FakeNetwork]:
        return opened(name, stop)

    with NetworksInMemory(
        open_network, {"unet": 100, "text_encoder": 30, "vae_decoder": 10}, execution
    ) as owner:  # type: ignore[arg-type]
        yield held, threads, owner
