"""A model kept on the GPU."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from msd.errors import BadModelFile, DelegateFailed
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from tests import edited_models, tiny_models


def test_many_runs_agree_with_the_cpu(tmp_path: Path) -> None:
    path = tiny_models.save("two_by_two", tmp_path)
    cpu = Interpreter(path)
    with GpuProcess(path, Conditions()) as session:
        assert {n: p.shape for n, p in session.outputs.items()} == {"a": (1, 9, 7, 4), "b": (1, 9, 7, 8)}
        for seed in range(3):
            inputs = random_inputs(session.inputs.values(), seed)
            got, wanted = session.run(inputs), cpu.run(inputs)
            assert set(got) == {"a", "b"}
            for name in wanted:
                np.testing.assert_allclose(got[name], wanted[name], atol=1e-5)


def test_a_file_without_a_signature_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "plain.tflite"
    path.write_bytes(edited_models.without_signature("copy_only"))
    (name,) = Interpreter(path).inputs
    with GpuProcess(path, Conditions()) as session:
        (value,) = session.run({name: np.full(tiny_models.SHAPE, 2.5, np.float32)}).values()
    np.testing.assert_array_equal(value, np.full(tiny_models.SHAPE, 2.5, np.float32))


def test_a_partial_delegation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DelegateFailed, match=r"refuses .*: GATHER_ND: Operation is not supported"):
        GpuProcess(tiny_models.save("cut_off", tmp_path), Conditions())


def test_a_failed_compilation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "refused.tflite"
    path.write_bytes(edited_models.explicit_dequantize("dense_int8", 2))
    with pytest.raises(DelegateFailed, match="Shape mismatch"):
        GpuProcess(path, Conditions())


def test_a_crash_is_a_sentence(tmp_path: Path) -> None:
    with GpuProcess(tiny_models.save("copy_only", tmp_path), Conditions()) as session:
        os.kill(session._child.process.pid, signal.SIGSEGV)
        with pytest.raises(
            DelegateFailed, match=r"was lost with .*copy_only.tflite: its process crashed with SIGSEGV"
        ):
            session.run({"x0": np.zeros(tiny_models.SHAPE, np.float32)})


def test_inputs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with (
        GpuProcess(tiny_models.save("copy_only", tmp_path), Conditions()) as session,
        pytest.raises(BadModelFile),
    ):
        session.run({"x0": np.zeros((1, 9, 7, 5), np.float32)})
