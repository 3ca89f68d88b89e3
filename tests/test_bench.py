"""Timing: how many runs there are, what is said of them, and of what is measured."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.bundle import open_bundle
from msd.errors import DelegateFailed, MsdError
from msd.files import schema
from msd.measure.bench.image_time import generate_timed, image_time
from msd.measure.bench.measure import TimedFile, measure
from msd.measure.bench.result import (
    Benchmark,
    BundleMeasurements,
    ImageGeneration,
    ImageTime,
    Measurement,
    Ratio,
    Refusal,
    dump_benchmark,
    ratios,
)
from msd.measure.bench.table import duration, remarks, tables, to_markdown
from msd.run.runners import adapter
from msd.run.runners.engine import Engine
from msd.run.runners.machine import Machine, this_machine
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions, ProcessMemory
from msd.run.runners.timings import MOST, Effort, interleaved, summarise
from scripts.figures import WRITTEN, read_figures
from tests import tiny_models
from tests.app_bundles import write_bundle
from tests.json_schema import violations
from tests.old_runtime import needs_old_runtime
from tests.stand_in import choose_scheduler

DOCUMENTED = Path(__file__).parent.parent / "docs" / "bench.schema.json"
QUICK = Effort(3, 1, 0.0, 1.0)


def engine(backend: str, **conditions: Any) -> Engine:
    return Engine(find_backend(backend), Conditions(isolation="process", **conditions))


def silent(words: str) -> None:
    """Told nothing."""


class Clockwork:
    """Something that takes the seconds it was told to, noting in `order` when it ran."""

    def __init__(self, name: str, seconds: float, order: list[str]) -> None:
        self.name, self.seconds, self.order = name, seconds, order

    def __call__(self) -> float:
        self.order.append(self.name)
        return self.seconds


def runs(effort: Effort, *seconds: float) -> tuple[list[list[float]], str]:
    order: list[str] = []
    works = [Clockwork("abc"[i], each, order) for i, each in enumerate(seconds)]
    return interleaved(works, effort, lambda count, taken: None), "".join(order)


@pytest.mark.parametrize(
    ("effort", "seconds", "count"),
    [
        (Effort(7, 0, 0.0, 99.0), 0.1, 7),
        (Effort(7, 0, 2.0, 99.0), 0.125, 16),
        (Effort(7, 0, 0.0, 0.25), 0.125, 2),
        (Effort(7, 0, 0.0, 0.0), 5.0, 1),
        (Effort(0, 0, 0.0, 9.0), 1.0, 0),
        (Effort(7, 0, 99.0, 99.0), 1e-6, MOST),
    ],
)
def test_runs_end_as_those_of_benchmark_model_do(effort: Effort, seconds: float, count: int) -> None:
    (taken,), _ = runs(effort, seconds)
    assert taken == [seconds] * count


def test_two_take_turns_and_each_goes_first_as_often() -> None:
    taken, order = runs(Effort(4, 0, 0.0, 99.0), 0.5, 0.25)
    assert order == "abbaabba"
    assert taken == [[0.5] * 4, [0.25] * 4]


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50))
def test_percentiles_are_those_of_numpy(taken: list[float]) -> None:
    times = summarise(0.5, 0.25, [], taken)
    assert times.least <= (times.median or 0) <= (times.p90 or 0) <= times.most
    assert times.median == pytest.approx(np.median(taken))
    assert times.p90 == pytest.approx(np.percentile(taken, 90))
    assert (times.mean, times.count) == (pytest.approx(np.mean(taken)), len(taken))


def test_a_network_is_measured_in_a_process_of_its_own(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    (m,) = measure([bundle], "unet", engine("litert-cpu", threads=1), QUICK, silent)
    assert (m.component, m.backend, m.adapter, m.precision, m.threads) == (
        "unet",
        "litert-cpu",
        "CPU",
        "fp32",
        1,
    )
    assert (m.delegate, m.bytes) == ("XNNPACK", bundle.component("unet").bytes)
    assert m.nodes is not None
    assert 0 < (m.delegated or 0) <= m.nodes
    assert (len(m.timings.warmups), len(m.timings.runs)) == (1, 3)
    assert m.timings.init > 0
    assert 1 << 20 < (m.memory.before or 0) < (m.memory.peak or 0) < 1 << 31


def test_the_delegates_own_log_counts(bundle_folder: Path) -> None:
    place = engine("litert-gpu", precision="fp16", adapter=adapter.find())
    (m,) = measure([open_bundle(bundle_folder)], "vae_decoder", place, QUICK, silent)
    assert m.delegated == m.nodes == m.operations > 0
    assert (m.partitions, m.delegate, m.threads) == (1, "ML Drift", None)
    if adapter.find().half_floats:
        assert (m.precision, m.notes) == ("fp16", ())
    else:
        assert m.precision == "fp32"
        assert m.notes == (f"{adapter.find().name} computes in fp32 instead of fp16",)


@needs_old_runtime
def test_another_runtime_is_measured_too(bundle_folder: Path) -> None:
    (m,) = measure([open_bundle(bundle_folder)], "unet", engine("tflite-runtime"), QUICK, silent)
    assert (m.backend, m.delegated, m.precision) == ("tflite-runtime", None, "fp32")
    assert m.timings.count == 3


def test_two_bundles_are_measured_together(bundle_folder: Path, batch_two_folder: Path) -> None:
    bundles = [open_bundle(bundle_folder), open_bundle(batch_two_folder)]
    first, second = measure(bundles, "unet", engine("litert-cpu"), QUICK, silent)
    assert (first.bytes, second.bytes) == tuple(b.component("unet").bytes for b in bundles)
    assert first.timings.count == second.timings.count == 3


@pytest.mark.parametrize(
    ("content", "words"), [("cut_off", "The GPU delegate refuses .*: GATHER_ND at 1"), ("copy_only", None)]
)
def test_a_partial_delegation_is_refused(content: str, words: str | None, tmp_path: Path) -> None:
    path, place = tiny_models.save(content, tmp_path), engine("litert-gpu", adapter=adapter.find())
    if words is None:
        with TimedFile(path, place) as file:
            assert file.run() > 0
    else:
        with pytest.raises(DelegateFailed, match=words):
            TimedFile(path, place)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "unet.tflite"
    path.write_bytes(b"TFL3" * 100)
    with pytest.raises(MsdError, match=r"unet\.tflite"):
        TimedFile(path, engine("litert-cpu"))


@pytest.mark.parametrize(("folder", "passes"), [("bundle_folder", 2), ("batch_two_folder", 1)])
def test_a_picture_is_computed_from_its_networks(
    folder: str, passes: int, request: pytest.FixtureRequest
) -> None:
    bundle = open_bundle(request.getfixturevalue(folder))
    seconds = {"text_encoder": 0.5, "unet": 3.0, "vae_decoder": 7.0}
    measured = [measurement(name, taken) for name, taken in seconds.items()]
    found = image_time(bundle, "litert-cpu", measured, 10, None)
    assert found is not None
    assert (found.encoding, found.step, found.decoding) == (passes * 0.5, passes * 3.0, 7.0)
    assert found.seconds == passes * (0.5 + 10 * 3.0) + 7.0
    assert image_time(bundle, "litert-cpu", measured[:2], 10, None) is None


def test_a_picture_takes_all_runs_of_its_scheduler(bundle_folder: Path, tmp_path: Path) -> None:
    """Heun's method runs the U-Net nineteen times in ten steps, twice each with guidance."""
    folder = shutil.copytree(bundle_folder, tmp_path / "heun")
    choose_scheduler(folder, {"_class_name": "HeunDiscreteScheduler"})
    seconds = {"text_encoder": 0.5, "unet": 3.0, "vae_decoder": 7.0}
    measured = [measurement(name, taken) for name, taken in seconds.items()]
    found = image_time(open_bundle(folder), "litert-cpu", measured, 10, None)
    assert found is not None
    assert found.seconds == pytest.approx(2 * (0.5 + 19 * 3.0) + 7.0)


def test_a_picture_is_without_what_only_some_ask_for_which_is_said(tmp_path: Path) -> None:
    bundle = open_bundle(write_bundle(tmp_path / "all", encoder=True, controls=("canny",), upscaler=True))
    seconds = {"text_encoder": 0.5, "unet": 3.0, "vae_decoder": 7.0}
    measured = [measurement(name, seconds.get(name, 99.0)) for name in bundle.manifest.components]
    found = image_time(bundle, "litert-cpu", measured, 10, None)
    assert found is not None
    assert (found.encoding, found.step, found.decoding) == (1.0, 6.0, 7.0)
    assert found.beside == ("vae_encoder", "controlnet_canny", "upscaler")
    said = replace(example(), bundles=(replace(benched("ours", 0.25), wholes=(found, found)),))
    (sentence,) = (remark for remark in remarks(said) if remark.startswith("ours: "))
    assert sentence.endswith("only where it is asked for: VAE encoder, ControlNet canny, upscaler")
    assert not any(remark.startswith("ours: ") for remark in remarks(example()))


def test_an_inpainting_picture_has_its_image_encoded(tmp_path: Path) -> None:
    bundle = open_bundle(write_bundle(tmp_path / "paints", encoder=True, inpaints=True))
    measured = [measurement(name, 1.0) for name in bundle.manifest.components]
    found = image_time(bundle, "litert-cpu", measured, 10, None)
    assert found is not None
    assert (found.encoding, found.beside) == (3.0, ())


def test_the_pipeline_really_generates_an_image(bundle_folder: Path) -> None:
    drawn = generate_timed(open_bundle(bundle_folder), engine("litert-cpu"), 3, "sequential")
    assert (drawn.steps, len(drawn.step_seconds), drawn.execution) == (3, 3, "sequential")
    assert drawn.seconds > sum(drawn.step_seconds) > 0
    assert drawn.peak > 1 << 20


def test_an_image_that_cannot_be_generated_is_a_sentence(tmp_path: Path, bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    moved = type(bundle)(tmp_path / "gone", bundle.manifest)
    with pytest.raises(DelegateFailed, match=r"Generating with .*gone failed: .*gone is not a folder"):
        generate_timed(moved, engine("litert-cpu"), 1)


def measurement(component: str, seconds: float, backend: str = "litert-cpu") -> Measurement:
    times = summarise(2.0, 1.5 * seconds, [seconds], [seconds] * 3)
    memory, notes = ProcessMemory(10**6, 123_456_789), ("warm",)
    return Measurement(
        component,
        backend,
        "CPU",
        "fp32",
        2,
        99,
        5,
        "XNNPACK",
        6,
        4,
        2,
        times,
        memory,
        notes,  # type: ignore[arg-type]
    )


def benched(name: str, seconds: float) -> BundleMeasurements:
    measured = tuple(
        measurement(c, seconds * i) for i, c in enumerate(("text_encoder", "unet", "vae_decoder"), 1)
    )
    picture = ImageTime(
        "litert-cpu",
        20,
        seconds,
        4 * seconds,
        3 * seconds,
        ImageGeneration(2, "resident", 9.0, (0.5, 0.25), 2 * 10**8),
    )
    return BundleMeasurements(name, "0" * 64, "gpu-w8", measured, (picture,))


def example(load: float = 0.1) -> Benchmark:
    both = benched("ours", 0.25), benched("theirs", 0.5)
    machine = Machine("Linux", "x86_64", "A Processor", 2, 1 << 34, load)
    return Benchmark("msd bench ours", machine, {"msd": "0"}, Effort(), both, ratios(*both), {"model": "P1"})


def test_two_bundles_are_compared_where_both_were_measured() -> None:
    found = ratios(benched("a", 0.25), benched("b", 0.5))
    assert [(r.what, r.ratio) for r in found] == [
        ("text_encoder", 0.5), ("unet", 0.5), ("vae_decoder", 0.5), ("whole", 0.5)
    ]  # fmt: skip
    assert found[-1] == Ratio("whole", "litert-cpu", 21.0, 42.0, 0.5)
    assert (
        ratios(
            benched("a", 0.25), BundleMeasurements("b", "", "", (measurement("unet", 1.0, "android"),), ())
        )
        == ()
    )


def test_its_json_form_is_read_again_and_fits_its_schema() -> None:
    text = dump_benchmark(example())
    assert schema.read(Benchmark, json.loads(text), "text") == example()
    assert list(violations(json.loads(text), schema.document(Benchmark))) == []
    assert list(violations({**json.loads(text), "bundles": 1}, schema.document(Benchmark))) == [
        "it.bundles is no array"
    ]
    wrong = json.loads(text.replace('"litert-cpu"', "1"))
    assert "it.ratios[0].backend is no string" in list(violations(wrong, schema.document(Benchmark)))


def test_the_schema_in_the_documents_is_this_one() -> None:
    """It is `json.dumps(schema.document(Benchmark), indent=1)` of msd.measure.bench.result."""
    assert json.loads(DOCUMENTED.read_text("utf-8")) == schema.document(Benchmark)


@pytest.mark.parametrize(
    "path", sorted((DOCUMENTED.parent / "results").glob("bench-demo*.json")), ids=lambda p: p.name
)
def test_stored_results_are_of_this_form(path: Path) -> None:
    stored = schema.load(Benchmark, path, 1, "a benchmark")
    facts = {name: value for name, value in read_figures(path).items() if name != WRITTEN}
    for image in (each for bundle in facts["bundles"] for each in bundle["wholes"]):
        image.setdefault("beside", [])
    assert json.loads(dump_benchmark(stored)) == {"date": "", "code": "", **facts}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((None, "–"), (0.0, "0.00 ms"), (0.0012345, "1.23 ms"), (0.012345, "12.3 ms"), (0.12345, "123 ms")),
        *((0.9994, "999 ms"), (0.9996, "1.00 s"), (12.345, "12.3 s"), (123.45, "123 s")),
    ],
)
def test_times_have_three_digits(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_tables_say_what_was_measured() -> None:
    first, picture, *_, compared = tables(example())
    assert first.rows[1] == (
        *("U-Net", "litert-cpu", "CPU, 2 threads, fp32", "4 of 6, XNNPACK", "2"),
        *("2.00 s", "750 ms", "500 ms", "500 ms", "123 MB"),
    )
    assert picture.rows == (
        (
            "litert-cpu",
            "250 ms",
            "1.00 s",
            "750 ms",
            "21.0 s",
            "2 steps, resident",
            "9.00 s",
            "500 ms",
            "200 MB",
        ),
    )
    assert "20 steps, computed" in picture.columns
    assert compared.rows[-1] == ("image, computed", "litert-cpu", "21.0 s", "42.0 s", "0.50")
    assert all(len(row) == len(table.columns) for table in tables(example()) for row in table.rows)


def test_a_refusal_has_a_row_and_a_reason() -> None:
    made = example()
    refused = BundleMeasurements("b", "", "r", (), (), (Refusal("unet", "litert-gpu", "it is refused"),))
    made = Benchmark(made.command, made.machine, {}, Effort(), (refused,))
    (table,) = tables(made)
    assert table.rows[0][:3] == ("U-Net", "litert-gpu", "refused")
    assert "it is refused" in remarks(made)
    assert "| U-Net | litert-gpu | refused |" in to_markdown(made)


def test_a_bar_in_a_name_makes_no_cell() -> None:
    both = benched("a|b", 0.25), benched("theirs", 0.5)
    text = to_markdown(replace(example(), bundles=both, ratios=ratios(*both)))
    (compared,) = (line for line in text.splitlines() if line.endswith("theirs |"))
    assert compared == r"|  | backend | a\|b | theirs | a\|b / theirs |"


def test_a_busy_machine_is_said_to_be_one() -> None:
    assert not any("at work" in remark for remark in remarks(example(0.9)))
    assert "The machine was busy: its load average was 1.5 at the start" in remarks(example(1.5))


def test_this_machine_is_described() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.memory_bytes > 1 << 28
    assert machine.processor
