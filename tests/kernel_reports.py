"""A made-up report of `msd kernels`, for what shows one."""

from __future__ import annotations

import numpy as np

from msd.gpu.peaks import Peaks
from msd.measure.profiling.result import (
    Ablation,
    AblationRow,
    Counted,
    DispatchCost,
    KernelReport,
    NetworkCosts,
    ShapeCosts,
    TileCost,
    WinogradCosts,
)
from msd.run.runners.machine import Machine

KERNELS = (
    ("convolution 64x128 int8", "CONV_2D 3x3"),
    ("winograd product 4x4", "CONV_2D 3x3"),
    ("convolution 128x128 int8", "CONV_2D 1x1"),
    ("flash attention 64, 32 x 32", "ATTENTION"),
    ("layer norm, 32 lanes", "LAYER_NORM"),
    ("group norm <&>", "GROUP_NORM"),
    ("pointwise a + b", "ADD"),
)
"""Names of kernels and of the operations that they compute; one would break a page that does not escape."""

MACHINE = Machine(
    system="Linux", architecture="x86_64", processor="A processor", cores=2, memory_bytes=8 << 30, load=0.0
)


def dispatches(count: int, seed: int = 0) -> tuple[DispatchCost, ...]:
    """Return made-up dispatches of all kernels, of very different sizes."""
    rng = np.random.default_rng(seed)
    return tuple(
        DispatchCost(
            kernel=KERNELS[i % len(KERNELS)][0],
            operation=KERNELS[i % len(KERNELS)][1],
            groups=(int(rng.integers(1, 500)), 1, 1),
            seconds=float(rng.exponential(1e-4)),
            flops=int(rng.integers(0, 10**9)),
            bytes=int(rng.integers(16, 10**7)),
            arithmetic=int(rng.integers(0, 10**9)),
            matrices=i % 3 == 0,
            least_seconds=float(rng.exponential(1e-5)),
        )
        for i in range(count)
    )


def network(count: int = 40, software: bool = False) -> NetworkCosts:
    """Return a made-up network of `count` dispatches."""
    return NetworkCosts(
        component="unet",
        file="unet.tflite",
        adapter="A <GPU>",
        software=software,
        precision="fp16",
        operations=3 * count,
        pipelines=len(KERNELS),
        dispatches=dispatches(count),
        run_seconds=(0.0051, 0.0049, 0.005),
        load_seconds=3.0,
        first_seconds=0.25,
        tensor_bytes=52_000_000,
        least_tensor_bytes=50_000_000,
        weight_bytes=880_000_000,
        parameter_bytes=40_000,
        peaks=Peaks(bytes=2.9e12, flops=6e13, matrix_flops=5e14, dispatch_seconds=3e-6),
        notes=("a remark",),
    )


def ablation() -> Ablation:
    """Return a made-up ablation of two rows: the second twice as fast, counted four times as fast."""
    rows = (("baseline", ("softmax", "winograd"), 4), ("+ Winograd", (), 1))
    return Ablation(
        component="unet",
        adapter="A <GPU>",
        software=False,
        precision="fp16",
        device="adreno-740",
        rows=tuple(
            AblationRow(
                name=name,
                without=without,
                run_seconds=(0.004, 0.02, 0.002) if factor == 4 else (0.002, 0.001, 0.03),
                dispatches=10,
                tensor_bytes=105_000_000,
                weight_bytes=1_640_000_000,
                bytes=10**9,
                counted=Counted(
                    dispatches=10,
                    tensor_bytes=105_000_000,
                    weight_bytes=1_640_000_000,
                    bytes=10**9,
                    flops=8 * 10**11,
                    arithmetic=factor * 10**11,
                    seconds=factor * 0.1,
                    float_seconds=factor * 0.15,
                ),
            )
            for name, without, factor in rows
        ),
    )


def winograd() -> WinogradCosts:
    """Return made-up tile sizes of two shapes, the second of which has no tile of 8."""
    shapes = ((64, 3, 4, (0, 2, 4, 6, 8)), (8, 1, 0, (0, 2, 4, 6)))
    return WinogradCosts(
        component="unet",
        adapter="A <GPU>",
        software=False,
        precision="fp16",
        shapes=tuple(
            ShapeCosts(
                height=size,
                width=size,
                inputs=320,
                outputs=640,
                count=count,
                chosen=chosen,
                tiles=tuple(TileCost(tile, 0.001 * (1 + tile), 90.0 - 5 * tile) for tile in tiles),
            )
            for size, count, chosen, tiles in shapes
        ),
    )


def report(count: int = 40, software: bool = False) -> KernelReport:
    """Return a made-up report with everything that a report may have."""
    return KernelReport(
        command="msd kernels sd21 --component unet",
        machine=MACHINE,
        versions={"msd": "0", "wgpu": "0"},
        repeats=3,
        networks=(network(count, software),),
        ablations=(ablation(),),
        winograd=(winograd(),),
    )
