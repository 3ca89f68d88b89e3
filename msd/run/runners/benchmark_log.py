"""Parse the output of TensorFlow Lite's benchmark_model and LiteRT's benchmark_litert_model on a phone.

The lines come from LiteRT's source (tflite/tools/benchmark/benchmark_model.cc and benchmark_tflite_model.cc,
tflite/delegates/gpu/delegate.cc, litert/tools/benchmark_litert_model.h) and from
xla/tsl/util/stats_calculator.h. On a terminal they begin with "INFO: " or nothing, in logcat with a date.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from msd.run.runners import native_log

LOGCAT = re.compile(
    r"^(?:\d\d-\d\d \d\d:\d\d:\d\d\.\d+ +\d+ +\d+ )?[VDIWEF](?: \S+ *|/[^(]*\( *\d+\)): ?", re.MULTILINE
)
PLACE = re.compile(r"^((?:VERBOSE|INFO|WARN(?:ING)?|ERROR): )\[[\w.]+:\d+\] ", re.MULTILINE)
NUMBER = r"([-+.\deE]+)"
TFLITE_MEMORY = (
    rf"Memory footprint delta .*\(MB\): init={NUMBER}",
    rf"Memory footprint delta .*\(MB\): .*overall={NUMBER}",
    rf"Overall peak memory footprint \(MB\) via periodic monitoring: {NUMBER}",
)
LITERT_MEMORY = tuple(
    rf"{label}:\s+{NUMBER} MB" for label in ("Init footprint", "Overall footprint", "Peak memory")
)
FAILURES = (
    "Can not open OpenCL library",
    "Can not find OpenCL library",
    "TfLiteGpuDelegate Init: ",
    "TfLiteGpuDelegate Prepare: ",
    "Restored original execution plan after delegate application failure",
    "the model graph will not be executed by the delegate",
    "the model graph will be partially executed by the delegate",
    "Failed to compile model",
    "Failed to load model",
    "Disallowed CPU fallback detected",
    "Failed to apply GPU delegate",
    "Benchmarking failed",
)
"""Parts of the lines that report a failure; the most informative come first."""

LATENCY = {5: "median", 7: "p95"}
"""Fields of LatencyMetrics in tflite/tools/benchmark/proto/benchmark_result.proto, floats in ms."""


@dataclass(frozen=True)
class Times:
    """Times in seconds: of loading (`init`), the first run, warm-up runs on average, and `count` runs."""

    init: float | None
    first: float | None
    warmup: float | None
    mean: float | None
    count: int
    least: float | None
    most: float | None
    deviation: float | None
    median: float | None
    p95: float | None


@dataclass(frozen=True)
class Footprint:
    """Growth of the process in bytes, while loading (`init`) and `overall`, and its peak memory."""

    init: int | None
    overall: int | None
    peak: int | None


@dataclass(frozen=True)
class BenchmarkLog:
    """The facts of one log; None where a line is not there.

    `native` has the delegate's own lines. `fully_delegated` says whether the graph runs completely on the
    delegate, `kernels` in how many pieces. `failure` is the line that explains a failure, also one that the
    delegate recovered from, such as missing OpenCL. `unconsumed` has the flags that the program ignored.
    """

    times: Times
    footprint: Footprint
    model_megabytes: float | None
    api: str | None
    kernels: int | None
    fully_delegated: bool | None
    native: native_log.NativeLog
    failure: str | None
    unconsumed: str | None


def parse(text: str) -> BenchmarkLog:
    """Return the facts in the output of either program."""
    text = PLACE.sub(r"\1", LOGCAT.sub("", text.replace("\r\n", "\n")))
    facts = native_log.parse(text)
    litert = "BENCHMARK RESULTS" in text
    kernels = _number(r"Created (\d+) GPU delegate kernels", text)
    return BenchmarkLog(
        _litert_times(text) if litert else _tflite_times(text),
        _memory(text, litert),
        model_megabytes=_number(rf"The input model file size \(MB\): {NUMBER}", text),
        api=_word(r"Initializ(?:ed|ing) (\S+)-based API", text),
        kernels=None if kernels is None else int(kernels),
        fully_delegated=_fully_delegated(text, facts),
        native=facts,
        failure=_failure(text, facts),
        unconsumed=_word(r"Unconsumed cmdline flags:\s*(.+)", text),
    )


def read_result(data: bytes) -> dict[str, float]:
    """Return the seconds of "median" and "p95" in a result file (BenchmarkResult), if it has them."""
    for number, _, value in _fields(data):
        if number == 2 and isinstance(value, bytes):
            return {
                LATENCY[n]: float(v) / 1e3
                for n, kind, v in _fields(value)
                if n in LATENCY and kind == 5 and isinstance(v, float)
            }
    return {}


def _tflite_times(text: str) -> Times:
    """Return the times of benchmark_model, which prints microseconds; its last "count=" is of the runs."""
    summary = re.search(
        rf"Inference timings in us: Init: {NUMBER}, First inference: {NUMBER}, Warmup \(avg\): {NUMBER}, "
        rf"Inference \(avg\): {NUMBER}",
        text,
    )
    init, first, warmup, mean = (_micro(word) for word in summary.groups()) if summary else (None,) * 4
    if init is None and (milliseconds := _number(rf"Initialized session in {NUMBER}ms", text)) is not None:
        init = milliseconds / 1e3
    line = (re.findall(r"^(?:INFO: )?(count=\d+.*)$", text, re.MULTILINE) or [""])[-1]
    value = {name: _micro(word) for name, word in re.findall(rf"(\w+)={NUMBER}", line)}
    same = value.get("curr") if "min" not in value else None  # one run, or all of them alike
    return Times(
        init=init,
        first=first,
        warmup=warmup,
        mean=value.get("avg", same if mean is None else mean),
        count=int(_number(r"count=(\d+)", line) or 0),
        least=value.get("min", same),
        most=value.get("max", same),
        deviation=value.get("std"),
        median=value.get("median", same),
        p95=value.get("p95", same),
    )


def _litert_times(text: str) -> Times:
    """Return the times of benchmark_litert_model, which prints milliseconds."""

    def milli(label: str) -> float | None:
        number = _number(rf"{re.escape(label)}:\s+{NUMBER}", text)
        return None if number is None else number / 1e3

    count = int(_number(r"Inference \(avg\):.*\((\d+) runs\)", text) or 0)
    return Times(
        init=milli("Model initialization"),
        first=milli("Warmup (first)"),
        warmup=milli("Warmup (avg)"),
        mean=milli("Inference (avg)"),
        count=count,
        least=milli("Inference (min)"),
        most=milli("Inference (max)"),
        deviation=milli("Inference (std)"),
        median=None,
        p95=None,
    )


def _memory(text: str, litert: bool) -> Footprint:
    patterns = LITERT_MEMORY if litert else TFLITE_MEMORY
    numbers = (_number(pattern, text) for pattern in patterns)
    return Footprint(*(None if megabytes is None else round(megabytes * 2**20) for megabytes in numbers))


def _fully_delegated(text: str, facts: native_log.NativeLog) -> bool | None:
    if facts.restored or facts.rejected:
        return False
    if facts.replaced:
        return all(delegated == nodes and pieces == 1 for delegated, nodes, pieces in facts.replaced)
    applied = _word(
        r"the model graph will (be completely|be partially|not be) executed by the delegate", text
    )
    return None if applied is None else applied == "be completely"


def _failure(text: str, facts: native_log.NativeLog) -> str | None:
    """Return the reason of a failure: the rejections, or the first of the most informative lines."""
    reasons = [f"{kind}: {reason.rstrip('.')}" for kind, reason in facts.rejected]
    if reasons:
        return "; ".join(reasons)
    lines = [re.sub(r"^(?:ERROR|INFO|WARN(?:ING)?): ", "", line).strip() for line in text.splitlines()]
    return next((line for words in FAILURES for line in lines if words in line), None)


def _fields(data: bytes) -> list[tuple[int, int, int | float | bytes]]:
    """Return the (number, wire type, value) of a protocol buffer's fields, up to an unknown wire type."""
    fields: list[tuple[int, int, int | float | bytes]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 5 and at + 4 <= len(data):
            (value,) = struct.unpack_from("<f", data, at)
            fields.append((number, kind, float(value)))
            at += 4
        elif kind == 2:
            size, at = _varint(data, at)
            fields.append((number, kind, data[at : at + size]))
            at += size
        elif kind == 0:
            integer, at = _varint(data, at)
            fields.append((number, kind, integer))
        else:
            break
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            break
    return value, at


def _micro(word: str) -> float | None:
    try:
        return float(word) / 1e6
    except ValueError:
        return None


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text)
    try:
        return float(match.group(1)) if match else None
    except ValueError:
        return None


def _word(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match.group(1).strip() if match else None
