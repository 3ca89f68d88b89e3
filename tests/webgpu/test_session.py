"""A session runs its program again and again: each time with the inputs of that time, in pieces too."""

from __future__ import annotations

import numpy as np
import pytest

from msd.gpu import session
from msd.gpu.compile import compile_model
from msd.gpu.gpu_api import GpuApi
from msd.gpu.session import Session
from msd.graph.ir import Build, Model, Tensor
from tests.harness import build
from tests.webgpu_device import DAWN, device

APIS: list[GpuApi] = ["wgpu", "dawn"] if DAWN else ["wgpu"]


def sums(new: Build, x: Tensor, y: Tensor) -> Tensor:
    """Return ((x + y) * y + y) * y ..., six dispatches of which none can be left out."""
    for _ in range(3):
        x = new.MUL(new.ADD(x, y), y)
    return x


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("first", "piece"), [(32, 256), (1, 2), (4, 1), (6, 1)])
def test_each_run_computes_what_it_was_given(
    first: int, piece: int, api: GpuApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "FIRST", first)
    monkeypatch.setattr(session, "PIECE", piece)
    program = compile_model(Model([build(sums, x=(3, 5), y=(5,))]), device(api).gpu)
    random = np.random.default_rng(first)
    with Session(program, device(api)) as opened:
        for _ in range(4):
            x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 5), (5,)))
            expected = x.astype(np.float64)
            for _ in range(3):
                expected = (expected + y) * y
            (found,) = opened.run({"x": x, "y": y}).values()
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
            opened.submit()
            opened.wait()
