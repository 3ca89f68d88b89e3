"""Distances and verdicts, in numbers worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msd.cli.verdict_view import conclusion
from msd.files.schema import to_json
from msd.measure.judging.rejection import Rejection
from msd.measure.judging.verdict import Verdict, distance

ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3), elements=st.floats(-4, 4, width=32))


def verdict(**changes: Any) -> Verdict:
    """A good verdict with changes."""
    good = Verdict(
        file="unet.tflite",
        adapter="Adapter",
        adapter_type="Discrete GPU",
        precision_asked="fp32",
        precision="fp32",
        operations=5,
        subgraphs=1,
        delegated=5,
        partitions=1,
        confirmed=True,
        rejected=(),
        outputs=(distance("y", np.float32([4.0, 1.0]), np.float32([4.0, 1.0001])),),
        failure=None,
        crashed=False,
        problems=(),
        reference_failure=None,
        compile_seconds=1.0,
        run_seconds=0.5,
        seconds=2.0,
        log=("a line",),
    )
    return replace(good, **changes)


@pytest.mark.parametrize("integers", [False, True])
def test_int8_is_noted_only_of_files_with_integer_weights(integers: bool) -> None:
    found = verdict(delegated=4, partitions=2, integer_weights=integers)
    assert found.notes[0] == "the results are computed by GPU and CPU together"
    assert any("int8" in note for note in found.notes) is integers
    assert not verdict(integer_weights=True).notes


def test_a_limit_of_the_cpu_is_no_verdict_on_the_gpu() -> None:
    failure = "compiling failed: Conv im2col elements (2415919104) exceed the 32-bit integer limit."
    (note,) = verdict(failure=failure, delegated=0, partitions=0, outputs=()).notes
    assert "--vae-tile 512" in note
    assert not verdict(failure="compiling failed: no room", delegated=0, partitions=0, outputs=()).notes


def test_psnr_by_hand() -> None:
    found = distance("y", np.float32([3.0, -8.0]), np.float32([3.5, -8.0]))
    assert found.psnr == pytest.approx(20 * math.log10(8 / math.sqrt(0.125)), abs=1e-9)
    assert (found.max_difference, found.max_reference) == (0.5, 8.0)
    assert (found.finite, found.identical) == (True, False)


def test_equal_outputs_are_infinitely_near_and_identical() -> None:
    found = distance("y", np.float32([1, 2]), np.float32([1, 2]))
    assert (found.psnr, found.identical) == (math.inf, True)


def test_any_difference_from_silence_is_infinitely_far() -> None:
    assert distance("y", np.float32([0, 1e-9]), np.float32([0, 0])).psnr == -math.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_have_no_distance(bad: float) -> None:
    on_gpu = distance("y", np.float32([1, bad]), np.float32([1, 2]))
    on_cpu = distance("y", np.float32([1, 2]), np.float32([1, bad]))
    assert math.isnan(on_gpu.psnr)
    assert math.isnan(on_cpu.psnr)
    assert (on_gpu.finite, on_gpu.reference_finite) == (False, True)
    assert (on_cpu.finite, on_cpu.reference_finite) == (True, False)


@given(ARRAYS, st.floats(0.5, 8), st.floats(0.01, 0.1))
def test_psnr_does_not_depend_on_the_scale(reference: Any, scale: float, error: float) -> None:
    value = reference + np.float32(error)
    once = distance("y", value, reference).psnr
    scaled = distance("y", value.astype(np.float64) * scale, reference.astype(np.float64) * scale).psnr
    assert scaled == pytest.approx(once, abs=1e-6)


def test_a_good_verdict_has_no_objections() -> None:
    assert verdict().ok
    assert verdict().fully_delegated
    assert verdict().psnr == pytest.approx(95.05, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "objection"),
    [
        ({"delegated": 3, "partitions": 2}, "2 of 5 operations stay on the CPU"),
        ({"partitions": 2}, "the graph is cut into 2 partitions"),
        ({"failure": "compiling failed: out of luck", "delegated": 0}, "compiling failed: out of luck"),
        ({"problems": ("Texture size",)}, "the native log has the error “Texture size”"),
        (
            {"reference_failure": "loading failed", "outputs": ()},
            "there are no results of the CPU to compare with: loading failed",
        ),
        (
            {"outputs": (distance("y", np.float32([1.0]), np.float32([1.1])),)},
            "y has a PSNR of only 20.8 dB against the CPU's (required: 60 dB)",
        ),
        (
            {"outputs": (distance("y", np.float32([np.nan]), np.float32([1.1])),)},
            "y has NaN or infinite values",
        ),
        (
            {"outputs": (distance("y", np.float32([1.0]), np.float32([np.inf])),)},
            "y has NaN or infinite values on the CPU",
        ),
        (
            {"outputs": (distance("y", np.float32([1.0]), np.float32([1.0])),), "confirmed": False},
            "y equals the CPU's to the last bit, and no log line says that the GPU computed it",
        ),
    ],
)
def test_each_objection_is_one_sentence(changes: dict[str, Any], objection: str) -> None:
    assert verdict(**changes).objections == (objection,)
    assert not verdict(**changes).ok


@pytest.mark.parametrize(
    "changes", [{"delegated": 4}, {"partitions": 2}, {"failure": "no"}, {"operations": 0, "delegated": 0}]
)
def test_what_is_not_whole(changes: dict[str, Any]) -> None:
    assert not verdict(**changes).fully_delegated


def test_half_precision_is_held_to_less() -> None:
    near = (distance("y", np.float32([1.0]), np.float32([1.01])),)
    assert not verdict(outputs=near).ok
    assert verdict(outputs=near, precision_asked="fp16", precision="fp16").ok


def test_identical_outputs_are_noted_where_the_log_confirms_the_gpu() -> None:
    same = verdict(outputs=(distance("y", np.float32([1.0]), np.float32([1.0])),))
    assert same.ok
    assert same.notes == ("y equals the CPU's to the last bit",)


def test_json_is_strict_and_says_what_the_properties_say() -> None:
    rejected = (Rejection("SUM", "Unknown layout.", (4,), 1),)
    bad = verdict(
        rejected=rejected,
        delegated=4,
        precision_asked="fp16",
        outputs=(distance("y", np.float32([np.nan]), np.float32([1.0])),),
    )
    form = json.loads(json.dumps(to_json(bad), allow_nan=False))
    assert (form["ok"], form["psnr_db"]) == (False, None)
    assert form["outputs"][0]["psnr_db"] is None
    assert form["rejected"] == [
        {
            "kind": "SUM",
            "reason": "Unknown layout.",
            "operations": [4],
            "of": 1,
            "exact": True,
            "tensors": [],
        }
    ]
    assert form["objections"] == list(bad.objections)
    assert form["notes"][0] == "Adapter computes in fp32 instead of fp16"


LOST: dict[str, Any] = {"failure": "its process crashed", "crashed": True, "outputs": (), "delegated": 0}
PARTLY: dict[str, Any] = {"delegated": 2}
FAR: dict[str, Any] = {"outputs": (distance("y", np.float32([4, 1]), np.float32([1, 4])),)}


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([{}], "1 of 1 file is fully delegated, and the results match the CPU's."),
        ([{}, {}], "2 of 2 files are fully delegated, and the results match the CPU's."),
        ([LOST], "0 of 1 file is fully delegated; no results could be compared with the CPU's."),
        ([PARTLY], "0 of 1 file is fully delegated."),
        ([FAR], "1 of 1 file is fully delegated; no results match the CPU's."),
        ([{}, FAR], "2 of 2 files are fully delegated; the results of 1 match the CPU's."),
        (
            [{}, LOST],
            "1 of 2 files is fully delegated; the results of 1 match the CPU's; "
            "those of 1 could not be compared.",
        ),
        ([{"outputs": ()}], "1 of 1 file is fully delegated; no results could be compared with the CPU's."),
    ],
)
def test_a_conclusion_claims_no_match_that_was_not_measured(
    verdicts: list[dict[str, Any]], words: str
) -> None:
    assert conclusion([verdict(**changes) for changes in verdicts]) == words


def test_a_file_without_operations_is_not_ok() -> None:
    empty = verdict(operations=0, delegated=0, partitions=1)
    assert empty.objections == ("it has no operation that a GPU could run",)
    assert verdict(operations=0, delegated=0, failure="it crashed").objections == ("it crashed",)
