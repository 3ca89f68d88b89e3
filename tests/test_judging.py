"""The real delegate on small models."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.prediction.device import find_device
from msd.measure.judging import Rejection, judge
from msd.measure.report.examine import examine
from msd.run.runners.child import Child
from msd.run.runners.messages import Done
from tests import edited_models, tiny_models, varied_models
from tests.oracle.case import given, ints, model, numbers, op


@pytest.mark.parametrize(
    ("name", "operations"),
    [("whole", 3), ("two_by_two", 4), ("tokens", 2), ("conv_float16", 3), ("dense_float32", 1)],
)
def test_a_whole_delegation(name: str, operations: int, tmp_path: Path) -> None:
    verdict = judge(tiny_models.save(name, tmp_path))
    assert verdict.ok, verdict.objections
    assert (verdict.delegated, verdict.operations, verdict.partitions) == (operations, operations, 1)
    assert verdict.confirmed
    assert verdict.psnr >= 120
    assert verdict.adapter


@pytest.mark.parametrize("name", ["conv_int8", "depthwise_int8", "dense_int8"])
def test_int8_weights_agree_with_float_arithmetic(name: str, tmp_path: Path) -> None:
    """Dynamic-range arithmetic, TensorFlow Lite's own for these files, is below 60 dB away from this."""
    verdict = judge(tiny_models.save(name, tmp_path))
    assert verdict.ok, verdict.objections
    assert verdict.psnr >= 120


def test_a_partial_delegation_says_what_and_why(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("five_dimensions", tmp_path))
    assert not verdict.ok
    assert (verdict.delegated, verdict.operations, verdict.partitions) == (4, 6, 2)
    assert verdict.rejected == (
        Rejection("RESHAPE", "Tensor dimensions must be less than 5.", (4,), 1, ("Reshape",)),
        Rejection("SUM", "Unknown layout.", (5,), 1),
    )
    assert verdict.objections == ("2 of 6 operations stay on the CPU",)


def test_a_partial_delegation_still_has_numbers(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("cut_off", tmp_path))
    assert verdict.psnr >= 120
    assert "the results are computed by GPU and CPU together" in verdict.notes


def test_a_rejected_constant_is_no_error_of_its_own(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("constant_of_rank_five", tmp_path))
    assert [r.kind for r in verdict.rejected] == ["ADD", "RESHAPE"]
    assert verdict.objections == ("4 of 5 operations stay on the CPU",)


def test_numbers_of_a_partial_delegation_are_no_objection(tmp_path: Path) -> None:
    """Its int8 operations on the CPU round their inputs, so they are far from float arithmetic."""
    verdict = judge(tiny_models.save("int8_after_five_dimensions", tmp_path))
    assert verdict.psnr < 60
    assert verdict.objections == ("4 of 5 operations stay on the CPU",)


def test_a_model_of_refused_operations_stays_on_the_cpu(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("broadcast_to", tmp_path))
    assert (verdict.delegated, verdict.operations, verdict.failure) == (0, 1, None)
    assert verdict.objections == ("1 of 1 operation stays on the CPU",)


def test_the_delegate_may_refuse_after_accepting_every_operation(tmp_path: Path) -> None:
    path = tmp_path / "refused.tflite"
    path.write_bytes(edited_models.explicit_dequantize("dense_int8", 2))
    verdict = judge(path)
    assert (verdict.delegated, verdict.partitions, verdict.crashed) == (0, 0, False)
    assert verdict.failure is not None
    assert verdict.failure.startswith("compiling failed: INVALID_ARGUMENT: Shape mismatch")


def test_an_operation_version_may_be_too_new(tmp_path: Path) -> None:
    path = tmp_path / "version.tflite"
    path.write_bytes(edited_models.explicit_dequantize("conv_int8", 5))
    assert judge(path).rejected[0].reason == "Max version supported: 3. Requested version 5."


def test_infinite_outputs_are_an_objection(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("overflow", tmp_path))
    assert verdict.fully_delegated
    assert verdict.objections == ("y has NaN or infinite values, and on the CPU too",)
    assert math.isnan(verdict.psnr)


def test_a_silently_wrong_operation_is_found_by_its_numbers(tmp_path: Path) -> None:
    """With one scale for a whole int8 table the delegate computes nonsense; with one a row it is right."""
    path = tmp_path / "lookup.tflite"
    path.write_bytes(edited_models.lookup(scales=1))
    wrong = judge(path)
    path.write_bytes(edited_models.lookup(scales=23))
    right = judge(path)
    assert wrong.fully_delegated
    assert wrong.psnr < 20
    assert right.ok, right.objections


def test_a_texture_beyond_the_adapter_is_an_objection(tmp_path: Path) -> None:
    """Winograd weights are a texture 36·⌈channels/4⌉ high: 8172 fits SwiftShader's 8192, 8208 does not."""
    fits = judge(tiny_models.save("winograd_908", tmp_path))
    if "SwiftShader" not in fits.adapter:
        pytest.skip("other adapters have other limits")
    too_large = judge(tiny_models.save("winograd_912", tmp_path))
    assert fits.ok, fits.objections
    assert too_large.fully_delegated
    assert "Texture size ([Extent3D width:16, height:8208" in too_large.objections[0]
    assert too_large.psnr < 20


def test_bit_identical_outputs_are_no_objection_where_the_log_confirms_the_gpu(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("copy_only", tmp_path))
    assert verdict.ok, verdict.objections
    assert verdict.outputs[0].identical


def test_several_graphs_are_counted_together(tmp_path: Path) -> None:
    """And predicted so: the condition and the body are partitioned one by one, and all but WHILE is taken."""
    path = tiny_models.save("loop", tmp_path)
    verdict = judge(path)
    assert (verdict.delegated, verdict.operations, verdict.subgraphs) == (4, 5, 3)
    assert [r.kind for r in verdict.rejected] == ["WHILE"]
    (prediction,) = examine(path, ["litert-gpu"], find_device("adreno-740")).predictions
    assert (prediction.delegated, prediction.partitions) == (verdict.delegated, verdict.partitions) == (4, 2)


@pytest.mark.parametrize(
    ("rank", "behind", "delegated"), [(4, "TANH", 4), (2, "TANH", 0), (2, "BROADCAST_TO", 2)]
)
def test_a_file_that_the_delegate_refuses_is_predicted_on_the_cpu(
    tmp_path: Path, rank: int, behind: str, delegated: int
) -> None:
    """It refuses one for a dequantised matrix, unless that is outside of the partition that it keeps."""
    shape, path = (1,) * (rank - 2) + (3, 4), tmp_path / "sum.tflite"
    wide = op("DEQUANTIZE", [numbers(*shape, dtype="INT8", scales=1)], (shape, "FLOAT32"), version=2)
    sizes = [ints(*shape)] if behind == "BROADCAST_TO" else []
    next_to = op(behind, [wide.outputs[0], *sizes], (shape, "FLOAT32"), version=1 + len(sizes))
    total = op("ADD", [next_to.outputs[0], given(*shape)], (shape, "FLOAT32"))
    tflite.write(model(wide, next_to, total, op("TANH", total.outputs, (shape, "FLOAT32"))), path)
    (prediction,) = examine(path, ["litert-gpu"], find_device("adreno-740")).predictions
    assert prediction.delegated == delegated == judge(path).delegated


def test_operations_inside_a_composite_do_not_count() -> None:
    """The delegate is asked about the composite; a verdict on it is not possible, since it crashes."""
    (graph,) = executed_graphs(tflite.parse(edited_models.composite("whole")))
    assert [op.kind for op in graph.ops] == ["STABLEHLO_COMPOSITE"]
    assert [len(graph.ops) for graph in executed_graphs(tflite.parse(tiny_models.model("loop")))] == [1, 1, 3]


def test_the_operations_of_a_rejected_composite_count(tmp_path: Path) -> None:
    """The runtime hands its decomposition to the delegate, as it does with the body of a loop."""
    path = tmp_path / "composite.tflite"
    path.write_bytes(varied_models.model("composite"))
    verdict = judge(path)
    assert [rejected.reason for rejected in verdict.rejected] == ["odml.test"]
    assert (verdict.delegated, verdict.operations, verdict.subgraphs) == (3, 4, 2)
    assert verdict.objections[0] == "1 of 4 operations stays on the CPU"


def test_of_several_signatures_the_first_graphs_runs(tmp_path: Path) -> None:
    """Whatever their order in the file: here the second graph's comes first there."""
    graphs = [tflite.parse(tiny_models.model(name)).main for name in ("whole", "two_by_two")]
    for graph in graphs:
        graph.signatures[0].key = f"signature of {len(graph.ops)}"
    path = tmp_path / "two.tflite"
    tflite.write(Model(graphs), path)
    path.write_bytes(edited_models.signatures_reversed(path.read_bytes()))
    verdict = judge(path)
    assert verdict.ok, verdict.objections
    assert (verdict.operations, verdict.subgraphs) == (7, 2)
    assert [found.output for found in verdict.outputs] == ["y"]


def test_a_dtype_without_gpu_buffers(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("long_integers", tmp_path))
    assert "Tensor type(INT64) is not supported" in verdict.rejected[0].reason
    assert not verdict.ok


def test_given_inputs_are_used(tmp_path: Path) -> None:
    inputs = {"x0": np.full(tiny_models.SHAPE, -2, np.float32)}
    verdict = judge(tiny_models.save("copy_only", tmp_path), inputs=inputs)
    assert verdict.outputs[0].max_reference == 0


def test_inputs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tiny_models.save("copy_only", tmp_path)
    with pytest.raises(BadModelFile, match=r"takes the inputs \['x0'\], not \['latent'\]"):
        judge(path, inputs={"latent": np.zeros(tiny_models.SHAPE, np.float32)})
    with pytest.raises(BadModelFile, match=r"takes x0 as float32\[1, 9, 7, 4\], not float64\[1\]"):
        judge(path, inputs={"x0": np.zeros(1)})


def test_half_floats_are_used_or_said_not_to_be(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("whole", tmp_path), precision="fp16")
    assert verdict.precision_asked == "fp16"
    assert verdict.ok, verdict.objections
    if verdict.precision == "fp32":
        assert verdict.precision_note
        assert verdict.psnr >= 120
    else:
        assert verdict.psnr < 100


def test_a_crash_is_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Child.answer

    def kill_and_wait(child: Child) -> Done:
        child.process.kill()
        child.process.wait()
        return answer(child)

    path = tiny_models.save("whole", tmp_path)
    judge(path)
    monkeypatch.setattr(Child, "answer", kill_and_wait)
    verdict = judge(path)
    assert verdict.crashed
    assert verdict.objections == ("while compiling, its process crashed with SIGKILL",)


def test_a_time_out_is_a_verdict(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("whole", tmp_path), timeout=0.01)
    assert verdict.crashed
    assert verdict.failure == "while compiling, its process was stopped after 0.01 s, the time allowed"


def test_a_lack_of_memory_is_a_verdict(tmp_path: Path) -> None:
    verdict = judge(tiny_models.save("whole", tmp_path), memory=1000)
    assert verdict.crashed
    assert "GB of memory (allowed: 0.00 GB)" in str(verdict.failure)
