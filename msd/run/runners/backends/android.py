"""A phone that measures files with TensorFlow Lite's or LiteRT's own benchmark program, over adb."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from msd.bundle import RunsOn, file_facts
from msd.errors import DelegateFailed, PhoneFailed
from msd.files.scratch import scratch_folder
from msd.graph import tflite
from msd.graph.ir.executed_graphs import executed_ops
from msd.run.runners import benchmark_log
from msd.run.runners.adb import Adb, Answer
from msd.run.runners.backend import Backend, BackendOption, MeasuredFile, Report
from msd.run.runners.benchmark_log import BenchmarkLog, Times
from msd.run.runners.runner import Placement, Precision, ProcessMemory
from msd.run.runners.timings import Effort, Timings

PATIENCE = 5.0
"""Seconds between two queries of a phone that is too warm."""

LOADING = 900.0
"""Seconds that loading and warming up may take, besides the runs."""

RESULT = "result.pb"
FOLDER = "/data/local/tmp/msd"
COOL_SECONDS = 300.0


@dataclass(frozen=True)
class PhoneSettings:
    """The settings of a phone, and the benchmark program `binary`, copied with the .so files beside it.

    `folder` is the phone's folder for files; with `keep` they stay there. `cool_seconds` is the longest wait
    for a warm phone to cool.
    """

    binary: Path
    serial: str | None = None
    adb: str = "adb"
    folder: str = FOLDER
    keep: bool = False
    cool_seconds: float = COOL_SECONDS


class Phone:
    """A phone with the program on it; a context manager that removes the files it has copied.

    `description`: model, platform, Android version, GPU. Raises PhoneFailed.
    """

    def __init__(self, settings: PhoneSettings, report: Report) -> None:
        if not settings.binary.is_file():
            raise PhoneFailed(f"{settings.binary} is not a file; it should be a benchmark_model for Android")
        self.settings, self._pushed = settings, list[str]()
        self._adb = Adb(settings.adb, settings.serial)
        self.description = _describe(self._adb)
        self._help = ""
        try:
            self._install(report)
        except BaseException:
            self._remove()
            raise

    @property
    def litert(self) -> bool:
        """Whether the program is LiteRT's, judging by its flags, else by its name."""
        if "--use_npu" in self._help or "--gpu_precision_loss_allowed" in self._help:
            return "--use_npu" in self._help
        return "litert" in self.settings.binary.name

    def measure(
        self, path: Path, runs_on: RunsOn, precision: Precision, effort: Effort, report: Report
    ) -> MeasuredFile:
        """Return the program's measurement of a file, on the phone's GPU unless the file is for the CPU."""
        on_gpu = runs_on == "gpu"
        report("copying the model")
        remote = self._put(path)
        self._cool(report)
        report("running")
        flags = self._flags(remote, on_gpu, precision, effort)
        answer = self._run(flags, LOADING + 2 * effort.max_seconds)
        facts = benchmark_log.parse(answer.text)
        self._require_success(path, answer, facts, on_gpu)
        exact = self._result() if f"--result_file_path={self._at(RESULT)}" in flags else {}
        placement = self._placement(path, precision, on_gpu, facts, exact.get("p95"))
        memory = ProcessMemory(None, facts.footprint.peak)
        return MeasuredFile(placement, _timings(facts.times, exact.get("median")), memory)

    def _install(self, report: Report) -> None:
        report("copying the program")
        folder, binary = self.settings.folder, self.settings.binary
        self._require(self._adb.shell("mkdir", "-p", folder), f"{folder} cannot be made on the phone")
        for library in sorted(binary.parent.glob("*.so")):
            self._put(library)
        remote = self._put(binary)
        self._require(self._adb.shell("chmod", "755", remote), f"{remote} cannot be made executable")
        answer = self._run(["--help"], LOADING)
        self._require_runnable(answer)
        self._help = answer.text

    def _put(self, local: Path) -> str:
        """Copy a file to the phone unless it is there already; returns its path there."""
        remote = self._at(local.name)
        words = self._adb.shell("sha256sum", remote, seconds=600).text.split()
        if words[:1] != [file_facts(local).sha256]:
            self._pushed.append(remote)
            self._require(self._adb.push(local, remote), f"{local} cannot be copied to the phone")
        return remote

    def _cool(self, report: Report) -> None:
        """Wait until the phone reports no throttling; a phone that reports nothing counts as cool."""
        waited = 0.0
        while status := _thermal_status(self._adb):
            if waited >= self.settings.cool_seconds:
                raise PhoneFailed(
                    f"the phone is too warm to measure (thermal status {status} of 6 after "
                    f"{self.settings.cool_seconds:g} s); let it cool, off its charger"
                )
            report(f"waiting for it to cool, thermal status {status}")
            time.sleep(PATIENCE)
            waited += PATIENCE

    def _flags(self, remote: str, on_gpu: bool, precision: Precision, effort: Effort) -> list[str]:
        half = precision == "fp16"
        flags = [
            f"--graph={remote}",
            f"--num_runs={effort.repeats}",
            f"--min_secs={effort.min_seconds:g}",
            f"--max_secs={effort.max_seconds:g}",
            f"--warmup_runs={max(effort.warmups, 1)}",
            "--report_peak_memory_footprint=true",
        ]
        if "--result_file_path" in self._help:
            flags.append(f"--result_file_path={self._at(RESULT)}")
        if not on_gpu:
            return flags
        flags += ["--use_gpu=true", "--require_full_delegation=true"]
        if not self.litert:
            return [*flags, f"--gpu_precision_loss_allowed={str(half).lower()}"]
        match = re.search(r"--(gpu[-_]precision)\b", self._help)
        flag = f"--{match[1]}={precision}" if match else f"--allow_fp16={str(half).lower()}"
        return [*flags, "--use_cpu=false", flag]

    def _run(self, flags: Sequence[str], seconds: float) -> Answer:
        folder = shlex.quote(self.settings.folder)
        program = shlex.quote(f"./{self.settings.binary.name}")
        line = f"echo msd-pid=$$; cd {folder} && export LD_LIBRARY_PATH={folder}"
        return self._adb.script(f"{line} && exec {program} {shlex.join(flags)}", seconds)

    def _result(self) -> dict[str, float]:
        """Return the seconds in the program's result file, and remove the file."""
        with scratch_folder() as folder:
            local = folder / RESULT
            answer = self._adb.pull(self._at(RESULT), local)
            self._adb.shell("rm", "-f", self._at(RESULT))
            exists = answer.code == 0 and local.is_file()
            return benchmark_log.read_result(local.read_bytes()) if exists else {}

    def _placement(
        self, path: Path, precision: Precision, on_gpu: bool, facts: BenchmarkLog, p95: float | None
    ) -> Placement:
        notes = tuple(_notes(facts, p95))
        if not on_gpu:
            return Placement(processor="the phone's CPU", precision="fp32", notes=notes)
        operations = len(executed_ops(tflite.read(path)))
        delegated, nodes, partitions = _delegated(facts, operations)
        gpu = self.description.get("GPU", "GPU")
        return Placement(
            processor=f"{gpu}, {facts.api}" if facts.api else gpu,
            precision=precision,
            delegate="LiteRT GPU" if self.litert else "TfLiteGpuDelegateV2",
            nodes=nodes,
            delegated=delegated,
            partitions=partitions,
            notes=notes,
        )

    def _require_success(self, path: Path, answer: Answer, facts: BenchmarkLog, on_gpu: bool) -> None:
        """Raise DelegateFailed for a file that is not fully delegated, PhoneFailed for a run that failed."""
        self._require_runnable(answer)
        refused = on_gpu and facts.fully_delegated is False
        if refused or (answer.code and facts.failure):
            raise DelegateFailed(
                f"the phone's GPU delegate refuses {path}: {facts.failure or answer.first_line}"
            )
        if answer.code or facts.times.init is None or facts.times.mean is None:
            last = ([line for line in answer.text.splitlines() if line.strip()] or ["no words"])[-1].strip()
            raise PhoneFailed(f"{path} was not measured: the program ended with {answer.code}, “{last}”")
        if on_gpu and facts.fully_delegated is None:
            raise PhoneFailed(f"{path} ran, but no line says whether the GPU delegate accepted it")

    def _require_runnable(self, answer: Answer) -> None:
        name, text = self.settings.binary.name, answer.text
        if match := re.search(r"not executable: (.*)|Exec format error|unexpected e_machine", text):
            raise PhoneFailed(
                f"{name} does not run on the phone ({match[0].strip()}); "
                f"one for {self.description.get('ABI', 'its processor')} is needed"
            )
        if match := re.search(r'library "([^"]+)" not found', text):
            raise PhoneFailed(f"{name} needs {match[1]}; put it beside {name}, and it is copied too")

    def _require(self, answer: Answer, failure: str) -> None:
        if answer.code == 0:
            return
        if "No space left on device" in answer.text:
            raise PhoneFailed(
                f"{failure}: no space is left in {self.settings.folder}; free some on the phone"
            )
        raise PhoneFailed(f"{failure}: {answer.first_line}")

    def _at(self, name: str) -> str:
        return f"{self.settings.folder}/{name}"

    def _remove(self) -> None:
        """Remove the copied files from the phone, if it can still be reached."""
        if self.settings.keep or not self._pushed:
            return
        try:
            self._adb.shell("rm", "-f", *self._pushed)
            self._adb.shell("rmdir", self.settings.folder)
        except PhoneFailed:
            return

    def __enter__(self) -> Phone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()


def _describe(adb: Adb) -> dict[str, str]:
    """Return the phone's properties by name, without those that it does not report."""
    keys = {
        "model": "ro.product.model",
        "platform": "ro.board.platform",
        "Android": "ro.build.version.release",
        "ABI": "ro.product.cpu.abilist",
    }
    properties = dict(re.findall(r"^\[(.+?)\]: \[(.*?)\]", adb.shell("getprop").text, re.MULTILINE))
    description = {name: properties.get(key, "") for name, key in keys.items()}
    gles = re.search(r"GLES: (.*)", adb.shell("dumpsys", "SurfaceFlinger").text)
    parts = [part.strip() for part in gles.group(1).split(",")] if gles else []
    description["GPU"] = parts[1] if len(parts) > 1 else ""
    return {name: value for name, value in description.items() if value}


def _thermal_status(adb: Adb) -> int:
    """Return Android's thermal status, 0 (none) to 6 (shutdown); 0 where there is none (Android 9)."""
    match = re.search(r"Thermal Status: (\d+)", adb.shell("dumpsys", "thermalservice").text)
    return int(match.group(1)) if match else 0


def _delegated(facts: BenchmarkLog, operations: int) -> tuple[int, int, int]:
    """Return (delegated, nodes, partitions) of a fully delegated graph."""
    if facts.native.replaced:
        return facts.native.replaced[0]
    return operations, operations, facts.kernels or 1


def _timings(times: Times, median: float | None) -> Timings:
    mean = times.mean or 0.0
    least, most = (mean if value is None else value for value in (times.least, times.most))
    median = times.median if median is None else median
    return Timings(
        init=times.init or 0.0,
        first=times.first or 0.0,
        count=times.count,
        median=median,
        p90=None,
        mean=mean,
        least=least,
        most=most,
    )


def _notes(facts: BenchmarkLog, p95: float | None) -> list[str]:
    p95 = facts.times.p95 if p95 is None else p95
    return [
        *([f"95 % of the runs took at most {p95 * 1e3:.1f} ms"] if p95 is not None else []),
        *([f"the program does not know {facts.unconsumed}"] if facts.unconsumed else []),
    ]


def connect(options: Mapping[str, Any], report: Report) -> Phone:
    """Return the phone for values of `OPTIONS`, by name; raises PhoneFailed."""
    return Phone(PhoneSettings(**options), report)


OPTIONS = (
    BackendOption(
        flag="--benchmark-binary",
        name="binary",
        kind=Path,
        help="the program that measures on the phone.",
        needed="a benchmark_model for Android",
    ),
    BackendOption("--serial", "serial", str, "which phone, where adb sees several."),
    BackendOption("--adb", "adb", str, "adb's name or path.", default="adb"),
    BackendOption("--device-folder", "folder", str, "the folder for files on the phone.", default=FOLDER),
    BackendOption("--keep", "keep", bool, "keep the files there for the next time.", default=False),
    BackendOption(
        flag="--cool-seconds",
        name="cool_seconds",
        kind=float,
        help="wait up to this long for a warm phone to cool.",
        default=COOL_SECONDS,
    ),
)

BACKEND = Backend(name="android", connect=connect, takes=frozenset({"precision"}), options=OPTIONS)
