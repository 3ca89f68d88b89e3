"""Graphs as programs: the numbers of LiteRT on the CPU, for each kind of operator."""

from __future__ import annotations

import numpy as np
import pytest

from msd.gpu.compile import compile_model
from msd.gpu.gpu import Gpu
from msd.gpu.lowering.memory import Memory
from msd.gpu.switches import Switches
from msd.graph.ir import Build, Model, Op, Quant, Tensor
from tests.harness import Ints, build, normal
from tests.sparse_constants import densify, mostly_zero, sparse
from tests.webgpu_programs import check_program, constant_attention, run_program


def convolution(new: Build, x: Tensor, outputs: int, kernel: int = 1, **attrs: object) -> Tensor:
    filters = normal(outputs, kernel, kernel, x.shape[3])
    return new.CONV_2D(
        x, new.const(filters), new.const(normal(outputs)), **{"stride_h": 1, "stride_w": 1, **attrs}
    )


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("channels", [3, 4, 16])
def test_convolutions_of_every_geometry(kernel: int, stride: int, padding: str, channels: int) -> None:
    check_program(
        lambda new, x: convolution(new, x, 8, kernel, stride_h=stride, stride_w=stride, padding=padding),
        x=(2, 7, 6, channels),
        kernels=[f"CONV_2D {kernel}x{kernel}"],
    )


def test_a_dilated_convolution_with_an_activation() -> None:
    check_program(
        lambda new, x: convolution(
            new, x, 5, 3, dilation_h_factor=2, dilation_w_factor=2, fused_activation_function="RELU"
        ),
        x=(1, 9, 8, 4),
    )


@pytest.mark.parametrize("dtype", ["INT8", "INT4"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_integer_filters_with_a_scale_for_each_output(dtype: str, kernel: int) -> None:
    """LiteRT computes with the same weights as floats."""
    stored = np.random.default_rng(0).integers(-7, 8, (12, kernel, kernel, 16)).astype(np.int8)
    scale = np.linspace(0.1, 2, 12).astype(np.float32)
    floats = stored * scale.reshape(-1, 1, 1, 1)

    def spell(filters: Tensor) -> object:
        def spelled(new: Build, x: Tensor) -> Tensor:
            return new.CONV_2D(x, filters, new.const(normal(12)), stride_h=1, stride_w=1)

        return spelled

    quantised = Tensor(
        "w", stored.shape, dtype, Build().const(stored).data, Quant(scale, np.zeros(12, np.int64))
    )
    check_program(
        spell(quantised), reference=spell(Build().const(floats.astype(np.float32))), x=(1, 5, 6, 16)
    )


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize(
    "place", ["alone", "convolution", "few columns", "few rows", "fully connected", "gate"]
)
def test_gelu_in_the_form_that_the_file_asks_for(approximate: bool, place: str) -> None:
    """The forms differ by up to 4.7e-4, which are 65 dB here; `place` is what surrounds the GELU."""

    def spell(new: Build, x: Tensor) -> Tensor:
        before = {
            "alone": lambda: x,
            "convolution": lambda: convolution(new, x, 12, 3),
            "few columns": lambda: convolution(new, x, 3, 3),
            "few rows": lambda: convolution(new, new.MEAN(x, [1, 2], keep_dims=True), 12),
            "fully connected": lambda: new.FULLY_CONNECTED(new.RESHAPE(x, [30, 8]), new.const(normal(12, 8))),
            "gate": lambda: convolution(new, x, 12),
        }[place]()
        y = new.GELU(before, approximate=approximate)
        return new.MUL(convolution(new, x, 12), y) if place == "gate" else y

    check_program(spell, x=(1, 5, 6, 8), scale=1.0, least=110.0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_sparse_weights_are_expanded(dtype: str) -> None:
    """In blocks, as a layer reads them itself, and behind DENSIFY; LiteRT runs the same weights as floats."""
    w, filters = mostly_zero(12, 8, dtype=dtype), mostly_zero(4, 3, 3, 8, dtype=dtype)
    quant = Quant(np.float32([0.05]), np.int64([0])) if dtype == "int8" else None

    def spell(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        blocks = sparse(w, (1,), [(1, 4)], quant=quant)
        rows = densify(new, sparse(filters, quant=quant))
        if dtype == "float16":
            blocks, rows = (new.DEQUANTIZE(t, version=3) for t in (blocks, rows))
        flat = new.FULLY_CONNECTED(new.RESHAPE(x, [30, 8]), blocks, new.const(normal(12)))
        return flat, new.CONV_2D(x, rows, new.const(normal(4)), padding="SAME", stride_h=1, stride_w=1)

    def floats(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        scale = 0.05 if dtype == "int8" else 1.0
        matrix, image = (new.const(each.astype(np.float32) * np.float32(scale)) for each in (w, filters))
        flat = new.FULLY_CONNECTED(new.RESHAPE(x, [30, 8]), matrix, new.const(normal(12)))
        return flat, new.CONV_2D(x, image, new.const(normal(4)), padding="SAME", stride_h=1, stride_w=1)

    check_program(spell, reference=floats, x=(1, 5, 6, 8))


def test_a_fully_connected_layer() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        return new.FULLY_CONNECTED(x, new.const(normal(6, 8)), new.const(normal(6)))

    check_program(spell, x=(5, 8))


def test_everything_around_a_convolution_is_one_dispatch() -> None:
    def spell(new: Build, x: Tensor, t: Tensor, r: Tensor) -> Tensor:
        padded = new.PAD(x, new.const(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)))
        return new.ADD(new.ADD(convolution(new, padded, 8, 3, padding="VALID"), t), r)

    check_program(spell, x=(2, 6, 5, 4), t=(2, 1, 1, 8), r=(2, 6, 5, 8), kernels=["CONV_2D 3x3"])


@pytest.mark.parametrize("channels", [(8, 4), (6, 5)])
@pytest.mark.parametrize("batch", [1, 2])
def test_projections_of_one_vector_are_one_product(channels: tuple[int, int], batch: int) -> None:
    def spell(new: Build, x: Tensor, t: Tensor) -> tuple[Tensor, ...]:
        return tuple(new.ADD(convolution(new, x, n, 3), convolution(new, t, n)) for n in channels)

    kernels = ["CONV_2D 1x1", "CONV_2D 3x3", "CONV_2D 3x3"]
    check_program(spell, x=(batch, 6, 5, 4), t=(batch, 1, 1, 12), kernels=kernels)


@pytest.mark.parametrize(
    "switches",
    [
        Switches(),
        Switches(flash=False),
        Switches(flash=False, softmax=False),
        Switches(False, False, False, False, False),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_attention_in_each_form(switches: Switches, masked: bool, batch: int) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        rows = new.TRANSPOSE(new.RESHAPE(convolution(new, x, 24), [batch, 15, 6, 4]), [0, 2, 1, 3])
        q, k, v = new.SPLIT(1, rows, 3)
        scores = new.BATCH_MATMUL(q, new.TRANSPOSE(k, [0, 1, 3, 2]))
        if masked:
            scores = new.ADD(scores, new.const(normal(1, 1, 15, 15)))
        heads = new.BATCH_MATMUL(new.SOFTMAX(scores, beta=1.0), v)
        return new.RESHAPE(new.TRANSPOSE(heads, [0, 2, 1, 3]), [batch, 3, 5, 8])

    check_program(spell, switches=switches, scale=0.3, x=(batch, 3, 5, 4))


@pytest.mark.parametrize("adjoint", [False, True])
def test_batched_products_elsewhere(adjoint: bool) -> None:
    shape = (2, 3, 7, 4) if adjoint else (2, 3, 4, 7)
    check_program(lambda new, a, b: new.BATCH_MATMUL(a, b, adj_y=adjoint), a=(2, 3, 5, 4), b=shape)


def test_what_moves_elements() -> None:
    def spell(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        turned = new.TRANSPOSE(x, [0, 3, 1, 2])
        first, second = new.SPLIT(3, x, 2)
        joined = new.CONCATENATION(second, first, x, axis=3)
        padded = new.PAD(x, new.const(np.array([[0, 0], [0, 1], [2, 0], [0, 3]], np.int32)))
        large = new.RESIZE_NEAREST_NEIGHBOR(x, [9, 10])
        wide = new.BROADCAST_TO(new.SLICE(x, [0, 1, 0, 0], [2, 1, 5, 6]), [2, 4, 5, 6], version=2)
        flat = new.RESHAPE(turned, [2, 6, 15])
        return turned, joined, padded, large, wide, flat

    check_program(spell, least=300, x=(2, 3, 5, 6))


def test_convolutions_write_into_a_concatenation() -> None:
    """All but the one that something else reads too, and the one that is an output."""

    def spell(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        first, second, third = (convolution(new, x, n) for n in (8, 4, 12))
        joined = new.CONCATENATION(first, second, third, axis=3)
        return new.RELU(joined), new.ABS(second), third

    kernels = ["CONV_2D 1x1"] * 3 + ["CONCATENATION"] * 2 + ["RELU", "ABS"]
    program = check_program(spell, x=(2, 3, 5, 4))
    found = [step.operation.split(",")[0] for step in program.steps]
    assert sorted(found) == sorted(kernels)


def test_what_an_operator_reads_twice() -> None:
    """WebGPU binds a value once to a dispatch that may write to its buffer."""

    def spell(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        square = new.BATCH_MATMUL(new.RESHAPE(x, [12, 4]), new.RESHAPE(x, [12, 4]), adj_y=True)
        return (
            new.ADD(x, x),
            new.MUL(x, new.SLICE(x, [0, 0, 0, 0], [1, 1, 1, 1])),
            square,
            new.ADD(x, convolution(new, x, 4)),
        )

    check_program(spell, x=(1, 3, 4, 4))


def test_reductions() -> None:
    def spell(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        return (
            new.MEAN(x, [1, 2], keep_dims=True),
            new.MEAN(x, [3]),
            new.SUM(x, [-1], keep_dims=True),
            new.REDUCE_MAX(x, [2, 3]),
        )

    check_program(spell, x=(2, 6, 5, 7))


@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 4, 5), [0, 2]), ((2, 6, 5, 7), [-1, 1]), ((2, 3, 1, 4, 5), [2, 4, 0])]
)
def test_reductions_over_axes_apart(kind: str, keep: bool, shape: tuple[int, ...], axes: list[int]) -> None:
    """Keras's group norm is one, over height, width and the channels of a group."""
    dispatches = check_program(lambda new, x: getattr(new, kind)(x, axes, keep_dims=keep), x=shape)
    assert [step.operation for step in dispatches.steps] == [kind] * 2


def test_a_token_embedding_in_int8() -> None:
    stored = np.random.default_rng(0).integers(-127, 128, (9, 6)).astype(np.int8)
    scale = np.linspace(0.1, 2, 9).astype(np.float32)
    table = Tensor("t", (9, 6), "INT8", Build().const(stored).data, Quant(scale, np.zeros(9, np.int64)))
    floats = (stored * scale[:, None]).astype(np.float32)

    def spell(new: Build, ids: Tensor) -> Tensor:
        rows = Tensor("rows", (7, 6))
        new.ops.append(Op("EMBEDDING_LOOKUP", [ids, table], [rows], version=4))
        return rows

    check_program(
        spell,
        reference=lambda new, ids: new.EMBEDDING_LOOKUP(ids, new.const(floats)),
        ids=Ints((7,)),
    )


def equal(new: Build, a: Tensor, b: Tensor) -> Tensor:
    """Truth values, as real numbers."""
    truth, real = Tensor("truth", a.shape, "BOOL"), Tensor("real", a.shape)
    new.ops.append(Op("EQUAL", [a, b], [truth]))
    new.ops.append(Op("CAST", [truth], [real]))
    return real


@pytest.mark.parametrize("end", ["one id", "the largest id"])
def test_the_place_of_a_token(end: str) -> None:
    """Ids are told apart as whole numbers: 49406 and 49407 are one number in float16."""

    def spell(new: Build, ids: Tensor) -> Tensor:
        wanted = new.const(np.int32(49407).reshape(1, 1))
        if end == "the largest id":
            wanted = Tensor("most", (3, 1), "INT32")
            new.ops.append(Op("REDUCE_MAX", [ids, new.const(np.int32([1]))], [wanted], {"keep_dims": True}))
        return equal(new, ids, wanted)

    ids = np.int32([[49406, 320, 49407, 49407, 0], [49406, 49407, 0, 0, 0], [49406, 2047, 2048, 2049, 49407]])
    check_program(spell, ids=Ints((3, 5)), feeds={"ids": ids}, least=np.inf)


def test_whole_numbers_become_real_ones() -> None:
    def spell(new: Build, ids: Tensor) -> Tensor:
        real = Tensor("real", (3, 5))
        new.ops.append(Op("CAST", [ids], [real]))
        return real

    check_program(spell, ids=Ints((3, 5)), feeds={"ids": np.arange(-7, 8, dtype=np.int32).reshape(3, 5)})


@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 3, 4, 1, 7), [1, 2, 4]), ((1, 3, 1, 5), [0, 3]), ((3, 4), [1, -1])]
)
def test_reductions_pass_over_axes_of_one_element(shape: tuple[int, ...], axes: list[int]) -> None:
    """A group norm of one group is such a one."""
    check_program(lambda new, x: new.MEAN(x, axes, keep_dims=True), x=shape)


def test_an_output_that_is_a_constant_is_copied() -> None:
    """In its own shape or another: no other dispatch may read it."""
    constant = normal(3, 8)

    def spell(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        return new.RESHAPE(new.const(constant), [8, 3]), new.NEG(x)

    _, (found, _) = run_program(build(spell, x=(2, 3)), {"x": normal(2, 3)})
    np.testing.assert_array_equal(found, constant.reshape(8, 3))


@pytest.mark.parametrize("constant", ["a", "b"])
@pytest.mark.parametrize("adjoint", [False, True])
def test_products_with_a_constant(constant: str, adjoint: bool) -> None:
    shapes = {"a": (2, 5, 4), "b": (2, 7, 5) if adjoint else (2, 4, 7)}
    shapes["a"] = (2, 4, 5) if adjoint else shapes["a"]

    def spell(new: Build, **given: Tensor) -> Tensor:
        operands = {name: given.get(name) or new.const(normal(*shape)) for name, shape in shapes.items()}
        return new.BATCH_MATMUL(operands["a"], operands["b"], adj_y=adjoint)

    (other,) = {*shapes} - {constant}
    check_program(spell, **{other: shapes[other]})


@pytest.mark.parametrize("half", [False, True])
def test_attention_reads_constants_as_it_reads_activations(half: bool) -> None:
    memory = Memory(Gpu(half=half), Switches())
    keys = Build().const(np.array([0.1, 7e4], np.float32))
    value = memory.activation(keys)
    assert memory.activation(keys) is value
    assert value.load is not None
    wanted = np.array([0.1, np.inf], np.float16) if half else np.array([0.1, 7e4], np.float32)
    np.testing.assert_array_equal(value.load(), wanted, strict=True)
    assert value.element == ("f16" if half else "f32")


def test_attention_with_constant_keys_and_values() -> None:
    check_program(constant_attention, q=(2, 7, 8), kernels=["ATTENTION"])


def test_an_output_that_nothing_reads_is_f32_where_others_are_f16() -> None:
    def network(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        first = new.MUL(convolution(new, x, 8), new.const(normal(8)))
        return first, new.EXP(first)

    graph = build(network, x=(1, 4, 4, 8))
    program = compile_model(Model([graph]), Gpu(half=True))
    assert {name: port.element for name, port in program.outputs.items()} == {"out0": "f16", "out1": "f32"}
    assert [port.element for port in program.inputs.values()] == ["f32"]
    first = program.pipelines[program.steps[0].pipeline]
    assert (first.name, program.steps[0].operation) == ("pointwise a", "CAST")
