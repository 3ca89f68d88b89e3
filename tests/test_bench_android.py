"""A phone's measurements, over a stand-in for adb that replays composed texts: no phone is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from msd.bundle import open_bundle
from msd.errors import DelegateFailed, MsdError, PhoneFailed
from msd.measure.bench.measure import measurement
from msd.measure.bench.result import Measurement
from msd.run.runners.adb import Adb
from msd.run.runners.backends import android
from msd.run.runners.backends.android import Phone, PhoneSettings
from msd.run.runners.timings import Effort
from tests.stand_in_adb import INTRODUCTION
from tests.test_bench_android_log import result

ROOT = Path(__file__).parent.parent
STAND_IN = ROOT / "tests" / "stand_in_adb.py"


def stand_in(folder: Path, **plan: Any) -> Path:
    """Write a program that is called like adb and follows the plan; returns its path."""
    (folder / "plan.json").write_text(json.dumps(plan))
    program = folder / "adb"
    line = f'exec "{sys.executable}" -S "{STAND_IN}" "{folder / "plan.json"}" "$@"'
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    return program


def settings(folder: Path, name: str = "benchmark_model", **more: Any) -> PhoneSettings:
    (folder / "program").mkdir(exist_ok=True)
    binary = folder / "program" / name
    binary.write_bytes(b"\x7fELF stand-in")
    return PhoneSettings(binary, adb=str(folder / "adb"), **more)


def measure(folder: Path, bundle: Path, precision: Any = "fp16", **more: Any) -> Measurement:
    with Phone(settings(folder, **more), lambda words: None) as phone:
        path = open_bundle(bundle).path("unet")
        measured = phone.measure(path, "gpu", precision, Effort(), lambda words: None)
        return measurement("unet", android.BACKEND, path, measured)


def calls(folder: Path) -> list[str]:
    """What the stand-in was called with, a line each, without the serial number."""
    lines = (folder / "calls.txt").read_text().splitlines()
    return [" ".join(json.loads(line)).removeprefix("-s R5CSTANDIN1 ") for line in lines]


def ran(folder: Path) -> str:
    return next(line for line in calls(folder) if "--graph" in line)


def test_the_stand_in_says_that_it_is_one(tmp_path: Path) -> None:
    said = subprocess.run([stand_in(tmp_path), "devices", "-l"], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[0] == INTRODUCTION
    assert "stand-in" in INTRODUCTION


def test_a_measurement_is_what_the_program_printed(tmp_path: Path, bundle_folder: Path) -> None:
    stand_in(tmp_path)
    m = measure(tmp_path, bundle_folder)
    assert (m.backend, m.component, m.adapter) == ("android", "unet", "Adreno (TM) 740, OpenCL")
    assert (m.delegate, m.nodes, m.delegated, m.partitions) == ("TfLiteGpuDelegateV2", 2020, 2020, 1)
    times = m.timings
    assert (times.init, times.first, times.median, times.count) == (8.12345, 0.512345, 0.4309, 20)
    assert (times.p90, times.runs) == (None, ())
    assert m.memory.peak == round(2048.5 * 2**20)
    assert m.notes == ("95 % of the runs took at most 439.0 ms",)


def test_the_program_is_given_its_flags(tmp_path: Path, bundle_folder: Path) -> None:
    stand_in(tmp_path)
    measure(tmp_path, bundle_folder)
    for flag in (
        *("--graph=/data/local/tmp/msd/unet.tflite", "--use_gpu=true", "--require_full_delegation=true"),
        *("--gpu_precision_loss_allowed=true", "--report_peak_memory_footprint=true", "--num_runs=20"),
        *("--min_secs=1", "--max_secs=30", "--warmup_runs=2"),
    ):
        assert flag in ran(tmp_path).split()


def test_fp32_is_asked_for(tmp_path: Path, bundle_folder: Path) -> None:
    stand_in(tmp_path)
    measure(tmp_path, bundle_folder, "fp32")
    assert "--gpu_precision_loss_allowed=false" in ran(tmp_path)


def test_litert_has_flags_of_its_own_and_a_result_file(tmp_path: Path, bundle_folder: Path) -> None:
    plan = {"help": "litert-help", "run": "litert-whole", "result": result(430.5, 448.25).hex()}
    stand_in(tmp_path, **plan)
    m = measure(tmp_path, bundle_folder)
    assert {"--use_cpu=false", "--use_gpu=true", "--allow_fp16=true"} < set(ran(tmp_path).split())
    assert m.delegate == "LiteRT GPU"
    assert (m.timings.median, m.timings.mean) == pytest.approx((0.4305, 0.4302))
    assert m.notes == ("95 % of the runs took at most 448.2 ms",)


@pytest.mark.parametrize(("name", "litert"), [("benchmark_litert_model", True), ("benchmark_model", False)])
def test_a_program_that_does_not_know_help_is_told_by_its_name(
    name: str, litert: bool, tmp_path: Path
) -> None:
    stand_in(tmp_path, help="tflite-one-run")
    with Phone(settings(tmp_path, name), lambda words: None) as phone:
        assert phone.litert == litert


def test_what_was_copied_is_removed(tmp_path: Path, bundle_folder: Path) -> None:
    stand_in(tmp_path)
    measure(tmp_path, bundle_folder)
    assert list((tmp_path / "phone").iterdir()) == []
    assert "shell rm -f /data/local/tmp/msd/benchmark_model /data/local/tmp/msd/unet.tflite" in calls(
        tmp_path
    )


def test_what_is_kept_is_not_copied_again(tmp_path: Path, bundle_folder: Path) -> None:
    stand_in(tmp_path)
    for _ in range(2):
        measure(tmp_path, bundle_folder, keep=True)
    assert len([line for line in calls(tmp_path) if line.startswith("push")]) == 2
    assert len(list((tmp_path / "phone").iterdir())) == 2


def test_libraries_beside_the_program_go_with_it(tmp_path: Path) -> None:
    stand_in(tmp_path)
    asked = settings(tmp_path)
    (asked.binary.parent / "libLiteRt.so").write_bytes(b"library")
    with Phone(asked, lambda words: None):
        assert any("libLiteRt.so" in file.name for file in (tmp_path / "phone").iterdir())


def test_the_phone_is_described(tmp_path: Path) -> None:
    stand_in(tmp_path)
    with Phone(settings(tmp_path), lambda words: None) as phone:
        assert phone.description == {
            "model": "Stand-In 1",
            "platform": "kalama",
            "Android": "14",
            "ABI": "arm64-v8a,armeabi-v7a,armeabi",
            "GPU": "Adreno (TM) 740",
        }


def test_a_warm_phone_is_waited_for(
    tmp_path: Path, bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(android, "PATIENCE", 0.01)
    stand_in(tmp_path, thermal=["thermal-3", "thermal-3", "thermal-0"])
    measure(tmp_path, bundle_folder)
    asked = [line for line in calls(tmp_path) if "thermalservice" in line or "--graph" in line]
    assert [line.split()[-1] for line in asked[:3]] == ["thermalservice"] * 3
    assert len(asked) == 4


def test_a_phone_that_stays_warm_is_not_measured(
    tmp_path: Path, bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(android, "PATIENCE", 0.01)
    stand_in(tmp_path, thermal=["thermal-3"])
    with pytest.raises(PhoneFailed, match=r"too warm to measure \(thermal status 3 of 6 after 0.05 s\)"):
        measure(tmp_path, bundle_folder, cool_seconds=0.05)
    assert not any("--graph" in line for line in calls(tmp_path))


REFUSALS: list[tuple[dict[str, Any], type[MsdError], str]] = [
    ({"devices": "devices-none"}, PhoneFailed, "adb sees no phone"),
    (
        {"devices": "devices-two"},
        PhoneFailed,
        r"several devices, R5CSTANDIN1 \(device Stand_In_1\), emulator",
    ),
    ({"devices": "devices-unauthorized"}, PhoneFailed, "does not trust this computer yet; unlock it"),
    ({"devices": "devices-offline"}, PhoneFailed, "is offline; unplug it"),
    ({"devices": "devices-no-permissions"}, PhoneFailed, "may not be used by this user"),
    ({"help": "wrong-abi", "help code": 126}, PhoneFailed, r"64-bit ELF file\); one for arm64-v8a"),
    ({"help": "missing-library"}, PhoneFailed, "needs libLiteRt.so; put it beside benchmark_model"),
    ({"push": "No space left on device"}, PhoneFailed, "no space is left in /data/local/tmp/msd"),
    ({"push": "Permission denied"}, PhoneFailed, "cannot be copied to the phone: .*Permission denied"),
    ({"lost": 3}, PhoneFailed, "R5CSTANDIN1 was disconnected"),
    ({"run": "disconnected", "code": 1}, PhoneFailed, "R5CSTANDIN1 was disconnected"),
    (
        {"run": "tflite-rejected", "code": 1},
        DelegateFailed,
        "refuses .*unet.tflite: BROADCAST_TO: Operation is",
    ),
    ({"run": "tflite-rejected"}, DelegateFailed, "refuses .*unet.tflite: BROADCAST_TO"),
    ({"run": "tflite-no-opencl", "code": 1}, DelegateFailed, "refuses .*: Can not open OpenCL library"),
    ({"run": "litert-rejected", "code": 1}, DelegateFailed, "refuses .*: GATHER_ND"),
    ({"run": "devices-none", "code": 137}, PhoneFailed, "ended with 137, “List of devices attached”"),
]


@pytest.mark.parametrize(("plan", "kind", "words"), REFUSALS, ids=lambda value: str(value)[:50])
def test_what_goes_wrong_is_a_sentence(
    plan: dict[str, Any], kind: type[MsdError], words: str, tmp_path: Path, bundle_folder: Path
) -> None:
    stand_in(tmp_path, **plan)
    with pytest.raises(kind, match=words):
        measure(tmp_path, bundle_folder)


def test_a_run_that_says_nothing_of_the_delegate_is_not_believed(tmp_path: Path, bundle_folder: Path) -> None:
    folder = ROOT / "tests" / "recorded" / "adb"
    silent = [
        line for line in (folder / "tflite-old.txt").read_text().splitlines() if "delegate, and" not in line
    ]
    (tmp_path / "silent.txt").write_text("\n".join(silent))
    stand_in(tmp_path, run=os.path.relpath(tmp_path / "silent", folder))
    with pytest.raises(PhoneFailed, match="no line says whether the GPU delegate accepted it"):
        measure(tmp_path, bundle_folder)


def test_there_may_be_no_adb(tmp_path: Path) -> None:
    with pytest.raises(PhoneFailed, match="there is no /nowhere/adb; install Android's platform-tools"):
        Adb("/nowhere/adb")


def test_one_of_several_is_chosen(tmp_path: Path) -> None:
    program = stand_in(tmp_path, devices="devices-two")
    assert Adb(str(program), "emulator-5554").serial == "emulator-5554"
    with pytest.raises(PhoneFailed, match="adb sees no R9; it sees R5CSTANDIN1"):
        Adb(str(program), "R9")


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    adb = Adb(str(stand_in(tmp_path, seconds=60)))
    with pytest.raises(PhoneFailed, match="adb shell did not end within 1 s"):
        adb.script("echo msd-pid=$$; exec ./benchmark_model --graph=x", seconds=1)


BENCH = "from msd.cli import msd; msd()"


def test_interrupted_it_leaves_no_adb_and_stops_the_phone(tmp_path: Path, bundle_folder: Path) -> None:
    program = stand_in(tmp_path, seconds=60)
    binary = settings(tmp_path).binary
    command = ["bench", bundle_folder, "--backend", "android", "--component", "unet", "--adb", program]
    running = subprocess.Popen(
        [sys.executable, "-c", BENCH, *command, "--benchmark-binary", binary],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    for _ in range(1200):
        log = tmp_path / "calls.txt"
        if log.exists() and "--graph" in log.read_text() and replaying(tmp_path):
            break
        time.sleep(0.1)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode == 130
    assert replaying(tmp_path) == []
    said = calls(tmp_path)
    assert any(line.startswith("shell kill ") for line in said)
    assert said[-2].startswith("shell rm -f /data/local/tmp/msd/benchmark_model")


def replaying(folder: Path) -> list[int]:
    """The processes of the stand-in that follow the plan in `folder`."""
    plan = str(folder / "plan.json").encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if plan in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found
