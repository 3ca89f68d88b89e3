"""What WebGPU does not run is refused by the operator's name, its number in the file and the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.errors import DelegateFailed
from msd.gpu.compile import compile_model
from msd.gpu.gpu import Gpu
from msd.gpu.lowering import LOWER
from msd.gpu.lowering.memory import Memory
from msd.gpu.switches import Switches
from msd.gpu.value import Dispatch
from msd.graph.ir import Build, Graph, Model, Op, Tensor
from msd.graph.ir.weights import Array
from tests.harness import Ints, build, normal
from tests.webgpu.test_lowering import convolution, equal


def test_comparing_real_numbers_and_rounding_by_a_cast_are_refused() -> None:
    assert "compares other numbers than int32" in refused(build(equal, a=(2, 3), b=(2, 3)))

    def rounded(new: Build, x: Tensor) -> Tensor:
        whole = Tensor("whole", (2, 3), "INT32")
        new.ops.append(Op("CAST", [x], [whole]))
        return whole

    assert "casts float32 to int32, which kernels do not" in refused(build(rounded, x=(2, 3)))


def refused(graph: Graph, gpu: Gpu | None = None) -> str:
    with pytest.raises(DelegateFailed) as problem:
        compile_model(Model([graph]), gpu or Gpu())
    return str(problem.value)


def test_an_operator_without_a_kernel_is_named_with_its_place() -> None:
    graph = build(lambda new, x: new.NEG(new.FLOOR(x)), x=(2, 3))
    assert refused(graph) == "FLOOR, operator 0 (t0), has no kernel for WebGPU"


def test_the_number_of_a_refused_operator_is_that_in_the_file() -> None:
    """Though the operators before it are fused into fewer, or more, than the file has."""

    def spell(new: Build, x: Tensor) -> Tensor:
        silu = new.MUL(x, new.LOGISTIC(x))
        flat = new.FULLY_CONNECTED(silu, new.const(normal(4, 4)), None)
        return new.FLOOR(new.RELU(flat))

    graph = build(spell, x=(2, 4))
    (place,) = [number for number, op in enumerate(graph.ops) if op.kind == "FLOOR"]
    assert refused(graph).startswith(f"FLOOR, operator {place} (")


def test_convolutions_that_no_rule_fuses_are_refused_by_why() -> None:
    def grouped(new: Build, x: Tensor) -> Tensor:
        return new.CONV_2D(x, new.const(normal(6, 3, 3, 2)), None, stride_h=1, stride_w=1)

    def computed(new: Build, x: Tensor, w: Tensor) -> Tensor:
        return new.CONV_2D(x, w, None, stride_h=1, stride_w=1)

    def connected(new: Build, x: Tensor, w: Tensor) -> Tensor:
        return new.FULLY_CONNECTED(x, w, None)

    said = refused(build(grouped, x=(1, 5, 5, 4)))
    assert said == "CONV_2D, operator 0 (t0), has groups of channels, which kernels do not"
    for spell, shapes in ((computed, ((1, 5, 5, 4), (6, 3, 3, 4))), (connected, ((2, 4), (3, 4)))):
        said = refused(build(spell, **dict(zip("xw", shapes, strict=True))))
        assert said.endswith("operator 0 (t0), has a filter that is computed, which kernels do not")

    def signed(new: Build, x: Tensor) -> Tensor:
        w = new.const(normal(3, 4))
        return new.FULLY_CONNECTED(x, w, None, fused_activation_function="SIGN_BIT")

    assert refused(build(signed, x=(2, 4))).endswith(
        "has an activation or a layout of weights that kernels do not"
    )


def test_a_reduction_over_no_axis_is_refused() -> None:
    graph = build(lambda new, x: new.MEAN(x, [], keep_dims=True), x=(2, 3, 4))
    assert refused(graph) == "MEAN, operator 0 (t0), reduces no axis, which kernels do not"


@pytest.mark.parametrize("kind", ["MEAN", "PAD", "TRANSPOSE"])
def test_an_operand_that_is_computed_where_kernels_need_a_constant_is_named(kind: str) -> None:
    def spell(new: Build, x: Tensor, n: Tensor) -> Tensor:
        made = Tensor("made", (1, 5, 5, 4))
        new.ops.append(Op(kind, [x, n], [made]))
        return convolution(new, made, 4) if kind == "PAD" else new.NEG(made)

    graph = build(spell, x=(1, 5, 5, 4), n=Ints((4, 2) if kind == "PAD" else (4,)))
    assert refused(graph) == f"{kind}, operator 0 (made), cannot be compiled: n is not a constant"


def test_a_name_of_fused_operators_is_told_by_its_first_part() -> None:
    graph = build(lambda new, x: new.FLOOR(x), x=(2, 3))
    graph.outputs[0].name = "block/Relu;block/Add;block/Conv2D"
    assert refused(graph) == "FLOOR, operator 0 (block/Relu;…), has no kernel for WebGPU"


def test_a_product_that_broadcasts_is_refused() -> None:
    graph = build(lambda new, a, b: new.BATCH_MATMUL(a, b), a=(2, 3, 4), b=(1, 4, 5))
    assert refused(graph).endswith("broadcasts, which kernels do not")


def test_truth_values_as_an_input_or_output_are_refused_by_name() -> None:
    def alike(new: Build, a: Tensor, b: Tensor) -> Tensor:
        return equal(new, a, b).producer.operands[0]

    said = "is bool; kernels take and give float32, float16, int32 and int64"
    assert refused(build(alike, a=Ints((2, 3)), b=Ints((2, 3)))) == f"truth, an input or output, {said}"
    graph = build(lambda new, x: new.NEG(x), x=(2, 3))
    graph.inputs[0].dtype = "BOOL"
    assert refused(graph) == f"x, an input or output, {said}"


def test_a_bilinear_resize_is_refused() -> None:
    graph = build(lambda new, x: new.RESIZE_BILINEAR(x, [6, 6]), x=(1, 3, 3, 4))
    assert "RESIZE_BILINEAR" in refused(graph)


def test_a_resize_that_aligns_corners_is_refused() -> None:
    graph = build(lambda new, x: new.RESIZE_NEAREST_NEIGHBOR(x, [6, 6], align_corners=True), x=(1, 3, 3, 4))
    assert refused(graph).endswith("operator 0 (t0), aligns corners, which kernels do not")


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ({"axis": 1, "batch_dims": 1}, "gathers from each batch by indices of its own"),
        ({"axis": 1}, "gathers along another axis than the first"),
    ],
)
def test_lookups_along_other_axes_are_refused(attrs: dict[str, int], why: str) -> None:
    def spell(new: Build, x: Tensor, ids: Tensor) -> Tensor:
        rows = Tensor("rows", (2, 3, 4) if "batch_dims" in attrs else (2, 2, 3, 4))
        new.ops.append(Op("GATHER", [x, ids], [rows], attrs))
        return rows

    graph = build(spell, x=(2, 5, 4), ids=Ints((2, 3)))
    assert refused(graph) == f"GATHER, operator 0 (rows), {why}, which kernels do not"


def test_a_resize_by_a_fraction_is_refused() -> None:
    graph = build(lambda new, x: new.RESIZE_NEAREST_NEIGHBOR(x, [4, 4]), x=(1, 3, 3, 4))
    assert "does not enlarge by whole factors" in refused(graph)


def test_a_shape_that_is_not_fixed_is_refused() -> None:
    graph = build(lambda new, x: new.NEG(x), x=(2, 3))
    graph.inputs[0].shape_signature = (-1, 3)
    assert refused(graph) == "the shape of x is not fixed; kernels need fixed shapes"


def test_a_result_whose_shape_is_not_fixed_is_refused_by_its_operator() -> None:
    graph = build(lambda new, x: new.NEG(new.ABS(x)), x=(2, 3))
    graph.outputs[0].shape_signature = (-1, 3)
    assert refused(graph) == (
        "NEG, operator 1 (t1), makes a tensor whose shape is not fixed; kernels need fixed shapes"
    )


def test_tensors_without_an_element_are_refused() -> None:
    said = "shape is [0, 3], without an element; kernels need at least one"
    graph = build(lambda new, x: new.NEG(x), x=(0, 3))
    assert refused(graph) == f"the {said}".replace("shape is", "shape of x is")
    graph = build(lambda new, x: new.SLICE(x, [0, 0], [0, 3]), x=(2, 3))
    assert refused(graph) == f"SLICE, operator 0 (t0), makes a tensor whose {said}"


def test_sparse_weights_are_refused() -> None:
    held = Build().const(np.ones(7, np.uint8)).data
    filters = Tensor("w", (4, 1, 1, 4), "FLOAT32", held)
    graph = build(lambda new, x: new.CONV_2D(x, filters, None, stride_h=1, stride_w=1), x=(1, 2, 2, 4))
    assert "has a sparse constant, w, whose places are not read" in refused(graph)


def test_a_form_that_no_kernel_builder_foresees_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words of msd's: NumPy's stay in the traceback."""

    def broken(op: Op, memory: Memory) -> list[Dispatch]:
        return [np.ones((2, 3)).reshape(4)]  # type: ignore[list-item]

    monkeypatch.setitem(LOWER, "ABS", broken)
    graph = build(lambda new, x: new.ABS(x), x=(2, 3))
    words = "ABS, operator 0 (t0), reads x: float32[2, 3], and kernels fail on it (ValueError at "
    assert refused(graph).startswith(words)


def test_what_a_rule_does_not_foresee_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph, switches: Switches) -> None:
        graph.inputs[0].values()

    monkeypatch.setattr("msd.gpu.compile.fuse", broken)
    graph = build(lambda new, x: new.ABS(x), x=(2, 3))
    assert refused(graph).startswith("fusing its operators fails (NotConstant at ")


def test_a_constant_that_cannot_be_read_is_named() -> None:
    def broken() -> Array:
        return np.ones((2, 3)).reshape(4)

    weights = replace(Build().const(normal(4, 1, 1, 4)).weights, read=broken)
    filters = Tensor("w", (4, 1, 1, 4), "FLOAT32", weights)
    graph = build(lambda new, x: new.CONV_2D(x, filters, None, stride_h=1, stride_w=1), x=(1, 2, 2, 4))
    (constant,) = compile_model(Model([graph]), Gpu()).constants
    with pytest.raises(DelegateFailed) as problem:
        constant.load()
    words = "CONV_2D 1x1 reads the constant w, and kernels fail on it (ValueError at "
    assert str(problem.value).startswith(words)


def test_a_gpu_with_small_buffers_is_refused_in_a_sentence() -> None:
    graph = build(lambda new, x: convolution(new, x, 8, 3), x=(1, 64, 64, 8))
    assert "this GPU's buffers have at most 65536" in refused(graph, Gpu(buffer_bytes=65536))
