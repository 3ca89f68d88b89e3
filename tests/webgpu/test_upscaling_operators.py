"""The operators of upscalers as programs: ReLUs with slopes, and pixels between channels and blocks."""

from __future__ import annotations

import numpy as np
import pytest

from msd.errors import DelegateFailed
from msd.gpu.compile import compile_model
from msd.gpu.gpu import Gpu
from msd.graph.ir import Build, Model, Op, Quant, Tensor
from msd.graph.ir.weights import Array
from tests.harness import build, normal
from tests.webgpu_programs import check_program


def convolution(new: Build, x: Tensor, outputs: int, kernel: int = 1) -> Tensor:
    filters = new.const(normal(outputs, kernel, kernel, x.shape[3]))
    return new.CONV_2D(x, filters, new.const(normal(outputs)), padding="SAME", stride_h=1, stride_w=1)


def leaky(new: Build, x: Tensor, alpha: float = 0.2) -> Tensor:
    return new.LEAKY_RELU(x, alpha=alpha)


def prelu(new: Build, x: Tensor, *shape: int) -> Tensor:
    return new.PRELU(x, new.const(normal(*(shape or (1, 1, x.shape[-1])))))


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("channels", "outputs"), [(3, 10), (8, 12), (16, 7), (4, 3)])
def test_a_slope_below_zero_is_part_of_a_convolution(kernel: int, channels: int, outputs: int) -> None:
    """The slopes are of both signs; what follows is added after them."""

    def spell(new: Build, x: Tensor, r: Tensor) -> tuple[Tensor, ...]:
        first, second = (convolution(new, x, outputs, kernel) for _ in range(2))
        return new.ADD(leaky(new, first), r), prelu(new, second)

    program = check_program(spell, x=(2, 7, 5, channels), r=(2, 7, 5, outputs))
    assert {step.operation for step in program.steps} == {f"CONV_2D {kernel}x{kernel}"}


def test_a_slope_below_zero_is_part_of_a_product_and_of_few_rows() -> None:
    def spell(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        flat = new.FULLY_CONNECTED(new.RESHAPE(x, [30, 8]), new.const(normal(12, 8)))
        few = convolution(new, new.MEAN(x, [1, 2], keep_dims=True), 12)
        return leaky(new, flat), prelu(new, few)

    check_program(spell, x=(1, 5, 6, 8))


@pytest.mark.parametrize("alpha", [0.2, 0.01, 1.5, -0.25, 0.0, 1e-5])
def test_a_leaky_relu_alone(alpha: float) -> None:
    check_program(
        lambda new, x: (leaky(new, x, alpha), leaky(new, new.ABS(x), alpha)), x=(2, 3, 5, 7), least=140
    )


@pytest.mark.parametrize("shape", [(7,), (1, 1, 7), (1, 1, 1, 7), (3, 5, 7), (3, 1, 1), (1, 5, 7), (1, 1, 1)])
def test_a_prelu_of_slopes_of_any_shape(shape: tuple[int, ...]) -> None:
    check_program(lambda new, x: prelu(new, x, *shape), x=(2, 3, 5, 7), least=140)
    check_program(lambda new, x: prelu(new, convolution(new, x, 7, 3), *shape), x=(2, 3, 5, 4))


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
def test_a_prelu_of_few_axes(shape: tuple[int, ...]) -> None:
    check_program(lambda new, x: prelu(new, x, 6), x=shape, least=140)


def moved(new: Build, kind: str, x: Tensor, block: int) -> Tensor:
    """DEPTH_TO_SPACE or SPACE_TO_DEPTH."""
    batch, height, width, channels = x.shape
    deep = (batch, height // block, width // block, channels * block**2)
    wide = (batch, height * block, width * block, channels // block**2)
    y = Tensor(f"{x.name}/{kind}", wide if kind == "DEPTH_TO_SPACE" else deep)
    new.ops.append(Op(kind, [x], [y], {"block_size": block}))
    return y


@pytest.mark.parametrize("block", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_blocks_of_pixels_become_channels_and_back(block: int, channels: int) -> None:
    check_program(
        lambda new, x: moved(new, "DEPTH_TO_SPACE", x, block),
        x=(2, 3, 5, channels * block**2),
        least=np.inf,
    )
    check_program(
        lambda new, x: moved(new, "SPACE_TO_DEPTH", x, block),
        x=(2, 3 * block, 5 * block, channels),
        least=np.inf,
    )


def test_pixel_shuffle_behind_a_convolution() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        shuffled = moved(new, "DEPTH_TO_SPACE", convolution(new, x, 48, 3), 4)
        return new.ADD(shuffled, new.RESIZE_NEAREST_NEIGHBOR(x, [20, 28]))

    check_program(spell, x=(1, 5, 7, 3))


@pytest.mark.parametrize("dtype", ["INT8", "FLOAT16"])
def test_slopes_that_are_stored_small(dtype: str) -> None:
    """LiteRT reads the same slopes as floats."""
    stored = np.random.default_rng(0).integers(-100, 100, (1, 1, 9))
    quant = Quant(np.float32([0.01]), np.int64([0])) if dtype == "INT8" else None
    stored = stored.astype(np.int8) if quant else (stored * 0.01).astype(np.float16)
    floats = stored * np.float32(0.01) if quant else stored.astype(np.float32)

    def spell(slopes: Array, **options: object) -> object:
        def spelled(new: Build, x: Tensor) -> tuple[Tensor, ...]:
            small = (
                new.const(slopes)
                if slopes.dtype == np.float32
                else new.DEQUANTIZE(Tensor("slopes", slopes.shape, dtype, new.const(slopes).data, quant))
            )
            return new.PRELU(x, small), new.PRELU(convolution(new, x, 9), small)

        return spelled

    check_program(spell(stored), reference=spell(floats.astype(np.float32)), x=(1, 5, 6, 9))


@pytest.mark.parametrize("alpha", [float("inf"), float("nan")])
def test_a_slope_that_is_no_number_is_refused(alpha: float) -> None:
    graph = build(lambda new, x: new.LEAKY_RELU(x, alpha=alpha), x=(2, 3))
    with pytest.raises(DelegateFailed) as problem:
        compile_model(Model([graph]), Gpu())
    assert str(problem.value) == f"LEAKY_RELU, operator 0 (t0), has the slope {alpha}, which kernels do not"
