"""A Winograd convolution that measures its result gives the norm that reads it NumPy's moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graph_rewrites.lower_normalization import lower_group_norm
from msd.gpu.compile import compile_model
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.measured_output import COLUMNS, LANES, MeasuredOutput, measured_output
from msd.gpu.kernels.normalization import SMALL, joined_statistics
from msd.gpu.kernels.winograd import filter_of_run, winograd
from msd.gpu.operations import GroupNorm
from msd.gpu.session import Session
from msd.gpu.switches import Switches
from msd.gpu.value import Dispatch, Value
from msd.graph.ir import Build, Model, Tensor
from msd.graph.parity import psnr
from msd.graph.rewrite import Target, apply
from msd.graph.rewrite.spelling import spelling_of
from tests.harness import build, normal
from tests.rewrites.test_lower_normalization import group_norm
from tests.webgpu.convolutions import Case, case, snr
from tests.webgpu_device import constant, device, run

PAD = (1, 1, 1, 1)
GPU = Gpu()


def norm_of(made: Case, groups: int) -> GroupNorm:
    op = made.op
    return GroupNorm(
        x=op.y,
        y=Value("normalised", "f32", op.y.count),
        batch=op.batch,
        pixels=op.out_height * op.out_width,
        channels=op.outputs,
        groups=groups,
        epsilon=1e-5,
        scale=constant("scale", normal(op.outputs)),
    )


def measured(made: Case, tile: int, gpu: Gpu = GPU) -> tuple[list[Dispatch], MeasuredOutput]:
    dispatches = winograd(made.op, filter_of_run(made.op, tile, gpu), tile, gpu)
    found = measured_output(made.op, dispatches[-1], tile, gpu)
    assert found is not None
    return [*dispatches[:-1], found.measuring], found


def expected_factors(norm: GroupNorm, image: np.ndarray) -> np.ndarray:
    split = image.astype(np.float64).reshape(norm.batch, norm.pixels, norm.groups, -1)
    means, variances = split.mean((1, 3)), split.var((1, 3))
    assert norm.scale is not None
    assert norm.scale.load is not None
    each = norm.channels // norm.groups
    factor = (1 / np.sqrt(variances + norm.epsilon)).repeat(each, 1) * norm.scale.load()
    return np.stack([factor, -means.repeat(each, 1) * factor], 1)


@pytest.mark.parametrize(
    ("size", "outputs", "groups", "tile", "extras", "upsample"),
    [
        ((1, 4, 4, 4), 4, 2, 4, "", 1),
        ((2, 19, 23, 8), 20, 2, 4, "scale bias vector residual", 1),
        ((1, 9, 70, 12), 36, 9, 4, "scale bias slopes", 1),
        ((3, 7, 10, 8), 32, 4, 2, "bias residual", 2),
        ((1, 33, 18, 4), 4 * COLUMNS + 8, 4, 6, "vector", 1),
        ((1, 64, 33, 4), 40, 1, 4, "scale bias residual", 1),
    ],
)
def test_the_moments_are_numpy_s(
    size: tuple[int, int, int, int], outputs: int, groups: int, tile: int, extras: str, upsample: int
) -> None:
    made = case(size, outputs, (3, 3), pad=PAD, upsample=upsample, extras=extras, activation="SILU")
    norm = norm_of(made, groups)
    dispatches, found = measured(made, tile)
    joined, factors = joined_statistics(norm, found)
    image, got = run([*dispatches, *joined], made.inputs, [made.op.y, factors])
    assert snr(made.expected, image) > 100
    expected = expected_factors(norm, image)
    np.testing.assert_allclose(
        got.reshape(expected.shape), expected, rtol=2e-5, atol=2e-5 * abs(expected).max()
    )


def test_many_slabs_of_many_channels_are_joined() -> None:
    made = case((1, 2 * 4 * LANES, 4 * 20, 4), 32, (3, 3), pad=PAD, extras="bias")
    norm = norm_of(made, 2)
    dispatches, found = measured(made, 4)
    assert found.slabs * 16 > 4 * 150
    joined, factors = joined_statistics(norm, found)
    image, got = run([*dispatches, *joined], made.inputs, [made.op.y, factors])
    expected = expected_factors(norm, image)
    np.testing.assert_allclose(
        got.reshape(expected.shape), expected, rtol=2e-5, atol=2e-5 * abs(expected).max()
    )


def test_a_mean_far_from_zero_keeps_the_deviation() -> None:
    made = case((1, 40, 40, 4), 8, (3, 3), pad=PAD, extras="residual")
    far = {v: a + np.float32(3000) * (v.name == "residual") for v, a in made.inputs.items()}
    norm = norm_of(made, 2)
    dispatches, found = measured(made, 4)
    joined, factors = joined_statistics(norm, found)
    image, got = run([*dispatches, *joined], far, [made.op.y, factors])
    expected = expected_factors(norm, image)
    np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-4)


def test_the_image_is_what_is_written_without_measuring() -> None:
    made = case((2, 11, 21, 8), 24, (3, 3), pad=PAD, extras="scale bias residual")
    dispatches, found = measured(made, 4)
    (plain,) = run([*dispatches[:-1], found.plain], made.inputs, [made.op.y])
    (image,) = run(dispatches, made.inputs, [made.op.y])
    np.testing.assert_array_equal(image, plain)


def refusal(made: Case, gpu: Gpu = GPU) -> MeasuredOutput | None:
    dispatches = winograd(made.op, filter_of_run(made.op, 4, gpu), 4, gpu)
    return measured_output(made.op, dispatches[-1], 4, gpu)


def test_what_cannot_be_measured_is_left_alone() -> None:
    whole = case((1, 8, 8, 4), 8, (3, 3), pad=PAD, extras="scale bias slopes vector residual")
    assert refusal(whole) is not None
    assert refusal(whole, replace(GPU, storage_buffers=7)) is None
    assert refusal(replace(whole, op=replace(whole.op, y_row=16))) is None
    assert refusal(case((1, 8, 8, 4), 6, (3, 3), pad=PAD)) is None


def network(rows: int) -> Model:
    """Return two convolutions around a group norm with SiLU."""

    def spell(new: Build, x: Tensor) -> Tensor:
        normalised = group_norm(8, normal(32), normal(32))(new, convolution(new, x, seed=1))
        return convolution(new, new.MUL(normalised, new.LOGISTIC(normalised)), seed=2)

    graph = build(spell, x=(1, rows, 16, 32))
    apply(graph, [lower_group_norm], Target(spelling=spelling_of("", {})))
    return Model([graph])


def convolution(new: Build, x: Tensor, seed: int) -> Tensor:
    filters = new.const(normal(32, 3, 3, 32, seed=seed))
    return new.CONV_2D(x, filters, new.const(normal(32)), padding="SAME", stride_h=1, stride_w=1)


@pytest.mark.parametrize(("rows", "measures"), [(16, False), (SMALL // 16 // 4 + 8, True)])
def test_a_network_s_norm_reads_what_its_convolution_measured(rows: int, measures: bool) -> None:
    program = compile_model(network(rows), Gpu())
    names = [program.pipelines[step.pipeline].name for step in program.steps]
    assert ("winograd 4 output, measured" in names) is measures
    assert ("group statistics, joined channels" in names) is measures
    assert ("group statistics, slabs" in names) is False
    without = compile_model(network(rows), Gpu(), Switches(measured_outputs=False))
    assert len(without.steps) == len(program.steps) + measures


def test_two_norms_of_one_image_read_the_same_moments() -> None:
    def spell(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        image = convolution(new, x, seed=1)
        norms = [group_norm(groups, normal(32), normal(32))(new, image) for groups in (8, 2)]
        first, second = (convolution(new, each, seed=2 + i) for i, each in enumerate(norms))
        return first, second

    found = []
    for switches in (Switches(), Switches(measured_outputs=False)):
        graph = build(spell, x=(1, SMALL // 16 // 4 + 8, 16, 32))
        apply(graph, [lower_group_norm], Target(spelling=spelling_of("", {})))
        program = compile_model(Model([graph]), device().gpu, switches)
        names = [program.pipelines[step.pipeline].name for step in program.steps]
        assert names.count("winograd 4 output, measured") == switches.measured_outputs
        assert names.count("group statistics, joined channels") == 2 * switches.measured_outputs
        with Session(program, device()) as session:
            found.append(session.run({"x": normal(1, SMALL // 16 // 4 + 8, 16, 32)}))
    for name, measured_one in found[0].items():
        assert psnr(found[1][name], measured_one) > 100
