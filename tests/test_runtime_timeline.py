"""What is recorded is what happened: events, the memory of this process and its children, and its files."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from msd.errors import BadConfig, BadReport
from msd.files import schema
from msd.gpu.phases import Phase
from msd.run.runners import memory_sampler
from msd.run.runtime.timeline import (
    Event,
    Sample,
    Timeline,
    TimelineRecorder,
    load_timeline,
    without_plateaus,
)
from msd.run.runtime.timeline_plot import save_plot, save_timeline

MEGABYTES = 100_000_000
HOLD = "import sys; held = bytearray(b'1') * 100_000_000; print(flush=True); sys.stdin.read()"
TIMELINE = Timeline(
    "pipelined",
    3.0,
    (
        Event("text_encoder", "load", 0.0, 0.5, (Phase("device", 0.1, 0.2), Phase("compile", 0.3, 0.15))),
        Event("unet", "run", 0.5, 2.0),
        Event("vae_decoder", "unload", 2.5, 3.0),
    ),
    (Sample(0.0, 10, 0), Sample(1.0, 2_000_000_000, 500_000_000), Sample(3.0, 20, 5)),
)


def test_events_have_their_times_and_failures_count() -> None:
    with TimelineRecorder("sequential") as recorder:
        with recorder.watch("unet", "load") as parts:
            begin = time.perf_counter()
            time.sleep(0.05)
            parts.append(Phase("device", begin, 0.05))
        with pytest.raises(ValueError, match="no"), recorder.watch("unet", "run"):
            raise ValueError("no")
    timeline = recorder.timeline
    load, run = timeline.events
    assert (timeline.execution, load.component, load.activity, run.activity) == (
        "sequential",
        "unet",
        "load",
        "run",
    )
    assert load.end - load.begin >= 0.05
    (part,) = load.parts
    assert load.begin <= part.begin <= load.end
    assert (part.name, part.seconds, run.parts) == ("device", 0.05, ())
    assert load.end <= run.begin <= run.end <= timeline.seconds


def record_held_memory(path: Path) -> None:
    """Record what this process holds for a while, then what a child of it holds."""
    with TimelineRecorder("resident") as recorder:
        time.sleep(0.3)
        held = bytearray(b"1") * MEGABYTES
        time.sleep(0.3)
        del held
        time.sleep(0.3)
        with subprocess.Popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(0.3)
    save_timeline(recorder.timeline, path)


def test_memory_of_this_process_and_of_its_children_is_sampled(tmp_path: Path) -> None:
    """In a process of its own: children of other tests, which end when they like, are not among its own."""
    code = "import sys, pathlib; from tests.test_runtime_timeline import record_held_memory as record;"
    code += "record(pathlib.Path(sys.argv[1]))"
    path = tmp_path / "timeline.json"
    subprocess.run([sys.executable, "-c", code, path], check=True, cwd=Path(__file__).parents[1])
    timeline = load_timeline(path)
    memory = timeline.memory
    first, others = memory[0].process, memory[0].children
    most = max(sample.process for sample in memory)
    assert 0.95 * MEGABYTES <= most - first <= 1.3 * MEGABYTES
    assert memory[-1].process - first <= 0.3 * MEGABYTES
    assert 0.9 * MEGABYTES <= max(sample.children for sample in memory) - others <= 1.3 * MEGABYTES
    assert timeline.peak == max(sample.process + sample.children for sample in memory)
    assert [sample.at for sample in memory] == sorted(sample.at for sample in memory)


def test_the_sampler_and_its_file_end_with_the_recording() -> None:
    with TimelineRecorder("resident") as recorder:
        assert recorder._sampler is not None
        assert recorder._samples is not None
        pid = recorder._sampler.pid
        assert memory_sampler.resident(pid)
    assert not memory_sampler.resident(pid)
    assert recorder._samples.closed


def test_the_sampler_ends_when_its_parent_is_killed() -> None:
    code = "import sys; from msd.run.runtime.timeline import TimelineRecorder as Recorder;"
    code += "r = Recorder('x'); r.__enter__(); print(r._sampler.pid, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert memory_sampler.resident(pid)
        process.kill()
    until = time.monotonic() + 120
    while memory_sampler.resident(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not memory_sampler.resident(pid)


def test_ctrl_c_reaches_no_sampler() -> None:
    """A terminal sends it to all processes of the command, and the sampler's traceback would be printed."""
    code = """
import os, signal, time
from msd.run.runtime.timeline import TimelineRecorder
signal.signal(signal.SIGINT, lambda *of: None)  # what is ignored stays so in a child
with TimelineRecorder("x") as recorder:
    while not os.fstat(recorder._samples.fileno()).st_size:
        time.sleep(0.01)
    os.killpg(0, signal.SIGINT)
    time.sleep(0.5)
    print(recorder._sampler.poll())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_plateaus_lose_their_middle_and_peaks_and_slow_growth_stay() -> None:
    flat = [Sample(i, 50_000_000, 0) for i in range(10)]
    peak = [*flat, Sample(10, 90_000_000, 0), *(Sample(11 + i, 50_000_000, 0) for i in range(5))]
    assert [s.at for s in without_plateaus(peak)] == [0, 9, 10, 11, 15]
    slow = [Sample(i, i * 300_000, 0) for i in range(100)]
    kept = without_plateaus(slow)
    assert len(kept) == 1 + 98 // 4 + 1
    assert kept[-1] == slow[-1]


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    save_timeline(TIMELINE, tmp_path / "a.json")
    assert load_timeline(tmp_path / "a.json") == TIMELINE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ('{"format": 9}', "a newer msd is needed"),
        ('{"format": 1}', "is not a timeline"),
    ],
)
def test_other_files_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadReport, match=reason):
        load_timeline(tmp_path / "a.json")
    with pytest.raises(BadReport, match="cannot read"):
        load_timeline(tmp_path / "missing.json")


def test_the_figure_has_every_component_execution_and_peak(tmp_path: Path) -> None:
    save_plot([TIMELINE, Timeline("resident", 2.0, TIMELINE.events, ())], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for word in ("text_encoder", "unet", "vae_decoder", "load", "run", "unload", " device", " compile"):
        assert f">{word}<" in text
    assert ">pipelined, at most 2.50 GB<" in text
    assert ">resident, 2.0 s<" in text
    save_plot([TIMELINE, Timeline("resident", 2.0, TIMELINE.events, ())], tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_text() == text


def test_a_name_of_no_known_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"should end in \.json, \.png, \.svg"):
        save_timeline(TIMELINE, tmp_path / "a.pdf")
    assert list(tmp_path.iterdir()) == []


def test_the_schema_says_what_the_file_is() -> None:
    assert set(schema.document(Timeline)["properties"]) >= {"execution", "events", "memory", "seconds"}
