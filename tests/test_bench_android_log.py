"""What benchmark programs print on phones: texts made up from their sources, as tests/recorded/adb says."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.run.runners.benchmark_log import BenchmarkLog, parse, read_result

TEXTS = Path(__file__).parent / "recorded" / "adb"
MB = 2**20


def composed(name: str) -> BenchmarkLog:
    return parse((TEXTS / f"{name}.txt").read_text())


def test_benchmark_model_counts_in_microseconds() -> None:
    log = composed("tflite-whole")
    assert dataclasses.astuple(log.times) == pytest.approx(
        (8.12345, 0.512345, 0.471672, 0.431234, 20, 0.428, 0.441, 0.0029, 0.4309, 0.439)
    )
    assert dataclasses.astuple(log.footprint) == (round(1624.5 * MB), round(1700.25 * MB), round(2048.5 * MB))
    assert (log.model_megabytes, log.api, log.kernels, log.fully_delegated) == (882.428, "OpenCL", 1, True)
    assert log.native.replaced == ((2020, 2020, 1),)
    assert (log.failure, log.unconsumed) == (None, None)


def test_an_older_one_has_no_percentiles_no_peak_and_no_prefixes() -> None:
    log = composed("tflite-old")
    assert dataclasses.astuple(log.times) == pytest.approx(
        (0.870557, 0.130565, 0.122373, 0.119375, 50, 0.113737, 0.124776, 0.001948, None, None)
    )
    assert dataclasses.astuple(log.footprint) == (round(45.5 * MB), round(61.25 * MB), None)
    assert (log.fully_delegated, log.kernels, log.native.replaced) == (True, 1, ())


def test_one_run_is_its_own_median() -> None:
    times = composed("tflite-one-run").times
    assert (times.count, times.mean, times.median, times.least) == pytest.approx((1, 123e-6, 123e-6, 123e-6))
    assert times.first == pytest.approx(900e-6)


def test_litert_counts_in_milliseconds() -> None:
    log = composed("litert-whole")
    assert dataclasses.astuple(log.times) == pytest.approx(
        (23.74473, 0.74104, 0.6405, 0.4302, 20, 0.4164, 0.44886, 0.00992, None, None)
    )
    assert dataclasses.astuple(log.footprint) == (1391.75 * MB, 1400.5 * MB, 1500.25 * MB)
    assert (log.api, log.fully_delegated, log.native.replaced) == ("OpenCL", True, ((2020, 2020, 1),))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "tflite-rejected",
            "BROADCAST_TO: Operation is not supported; FULLY_CONNECTED: Max version supported",
        ),
        ("litert-rejected", "GATHER_ND: Operation is not supported"),
        ("logcat-rejected", "UNPACK: Operation is not supported"),
        ("tflite-no-opencl", "Can not open OpenCL library on this device - undefined symbol"),
    ],
)
def test_a_refusal_says_why(name: str, why: str) -> None:
    log = composed(name)
    assert log.fully_delegated is False
    assert log.failure is not None
    assert log.failure.startswith(why)


def test_a_tally_is_read_from_logcat_too() -> None:
    assert composed("logcat-rejected").native.tallies == ((294, 1),)


@pytest.mark.parametrize("applied", ["not be", "be partially"])
def test_a_delegate_that_was_not_used_is_not_whole(applied: str) -> None:
    words = f"INFO: Though it is applied, the model graph will {applied} executed by the delegate."
    assert parse(words).fully_delegated is False


@pytest.mark.parametrize(("counts", "whole"), [((9, 9, 1), True), ((8, 9, 1), False), ((9, 9, 2), False)])
def test_whole_is_every_operation_in_one_piece(counts: tuple[int, int, int], whole: bool) -> None:
    words = "Replacing {} out of {} node(s) with delegate (LITERT_CL) node, yielding {} partitions"
    assert parse(words.format(*counts)).fully_delegated is whole


def test_flags_that_are_not_known_are_named() -> None:
    assert parse("WARN: Unconsumed cmdline flags: --allow_fp16=true").unconsumed == "--allow_fp16=true"


def test_the_same_lines_from_logcat_say_the_same() -> None:
    lines = (TEXTS / "tflite-whole.txt").read_text().splitlines()
    plain = [line.removeprefix("INFO: ") for line in lines]
    logged = "\n".join(f"05-31 10:38:42.585 22206 22206 I tflite  : {line}" for line in plain)
    assert parse(logged) == composed("tflite-whole")
    assert parse("\r\n".join(lines)) == composed("tflite-whole")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert parse(text).times.count >= 0


def result(median: float, p95: float) -> bytes:
    """A BenchmarkResult with a name and latency metrics, written by hand."""
    latency = b"".join(
        bytes([n << 3 | 5]) + struct.pack("<f", v) for n, v in ((1, 7.0), (5, median), (7, p95))
    )
    return b"\x0a\x03abc" + b"\x12" + bytes([len(latency)]) + latency + b"\x22\x02\x10\x14"


def test_a_result_file_has_percentiles() -> None:
    assert read_result(result(430.5, 448.25)) == {"median": 0.4305, "p95": 0.44825}
    assert read_result(b"") == {}


@given(st.binary())
def test_any_result_file_is_read(data: bytes) -> None:
    assert set(read_result(data)) <= {"median", "p95"}
