"""Least squares on arrays: against definitions, and one form against the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.compress.pruning import least_squares
from msd.compress.pruning.least_squares import HELD_OUT, RIDGES, Ridge, Samples, Spool
from msd.graph.ir.weights import Array
from tests.harness import normal


def with_one(inputs: Array) -> Array:
    return np.pad(inputs, ((0, 0), (0, 1)), constant_values=1)


def unbiased(weights: Array) -> Array:
    return np.pad(weights, ((0, 0), (0, 1)))


@settings(max_examples=30)
@given(st.integers(2, 60), st.integers(2, 60), st.sampled_from(RIDGES))
def test_both_forms_are_the_same_numbers(samples: int, inputs: int, ridge: float) -> None:
    """And those of the definition: nothing changes |r - D z|² + λ|D|² to first order."""
    z, r, new = (normal(*shape, seed=i).astype(np.float64)
                 for i, shape in enumerate([(samples, inputs), (samples, 3), (7, inputs)]))  # fmt: skip
    forms = [Ridge(z, r, dual) for dual in (False, True)]
    amount = ridge * float(np.square(z).sum()) / inputs
    primal, dual = (form.change(form.solve(amount)) for form in forms)
    scale = np.abs(primal).max()
    np.testing.assert_allclose(dual, primal, rtol=0, atol=1e-5 * scale)
    slope = (primal @ z.T - r.T) @ z + amount * primal
    np.testing.assert_allclose(slope, 0, atol=1e-4 * np.abs(r.T @ z).max())
    for form in forms:
        np.testing.assert_allclose(form.seen(new) @ form.solve(amount), new @ primal.T, atol=1e-4 * scale)


@pytest.mark.parametrize(("samples", "inputs"), [(400, 500), (500, 400)])
@pytest.mark.parametrize("exact", [least_squares.EXACT, 100])
def test_the_smaller_matrix_is_chosen(
    samples: int, inputs: int, exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64 and in float32: the same to 1e-3 where λ is a hundredth."""
    monkeypatch.setattr(least_squares, "EXACT", exact)
    z, r = normal(samples, inputs, seed=1), normal(samples, 5, seed=2)
    known = Ridge.of(z, r)
    assert known.dual == (samples < inputs)
    amount = float(np.square(z).sum()) / inputs / 100
    made = known.change(known.solve(amount))
    exactly = Ridge(z.astype(np.float64), r.astype(np.float64), not known.dual)
    wanted = exactly.change(exactly.solve(amount))
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("own", [0, 2])
def test_refitting_recovers_what_can_be_recovered(own: float) -> None:
    """Inputs that go are sums of those that stay, plus a constant: the refit is exact, bias and all."""
    z, w = normal(300, 8, seed=1), normal(5, 8, seed=2)
    z[:, 6:] = z[:, :2] @ normal(2, 2, seed=4) + np.float32(3)
    y = z @ w.T + np.float32(own)
    found, weights = Samples(with_one(z[:, :6]), y, 225), unbiased(w[:, :6])
    weights[:, -1] = own
    before = found.error(found.residuals(weights)[found.judged])
    change, after = found.refit(weights, bias=True)
    assert before > 0.1
    assert after < 1e-6
    np.testing.assert_allclose(found.inputs @ (weights + change).T, y, atol=5e-3)
    fixed, worse = found.refit(weights, bias=False)
    assert after < worse < before
    np.testing.assert_array_equal(fixed[:, -1], 0)


@pytest.mark.parametrize("bias", [True, False])
def test_too_little_to_learn_from_does_no_harm(bias: bool) -> None:
    """Noisy outputs of more inputs than samples: the weights stay about what they were."""
    w, z = normal(3, 40, seed=5), normal(16, 40, seed=1)
    found = Samples(with_one(z), z @ w.T + 0.01 * normal(16, 3, seed=50), 12)
    before = found.error(found.residuals(unbiased(w))[found.judged])
    change, after = found.refit(unbiased(w), bias)
    assert after <= before
    np.testing.assert_allclose(change, 0, atol=0.2)


def test_errors_are_those_of_the_runs_held_out() -> None:
    """Of all, where none is held out."""
    z, w = normal(300, 8, seed=1), normal(5, 8, seed=2)
    y, other = z @ w.T, w + np.float32(0.1)
    for fitted, judged in [(200, slice(200, 300)), (300, slice(0, 300))]:
        found = Samples(with_one(z), y, fitted)
        want = np.square(y - z @ other.T)[judged].sum() / np.square(y[judged]).sum()
        lacking = found.residuals(unbiased(other))
        assert found.error(lacking[found.judged]) == pytest.approx(want, rel=1e-4)
        assert found.error(found.residuals(unbiased(w))[found.judged]) == pytest.approx(0, abs=1e-6)


def test_the_spool_gives_back_what_was_added(tmp_path: Path) -> None:
    """Runs in their order, a one beside the inputs, the last quarter held out."""
    spool = Spool(tmp_path / "x", 2 * HELD_OUT)
    runs = [(normal(7, 3, seed=i), normal(7, 2, seed=50 + i)) for i in range(2 * HELD_OUT)]
    for inputs, outputs in runs:
        spool.add(inputs, outputs)
    found = spool.samples()
    assert found.fitted == 7 * (2 * HELD_OUT - 2)
    np.testing.assert_array_equal(found.inputs, with_one(np.concatenate([z for z, _ in runs])))
    np.testing.assert_array_equal(found.outputs, np.concatenate([y for _, y in runs]))


def test_a_spool_keeps_so_many_samples_of_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same every time, but not the same places of each run; inputs stay beside their outputs."""
    monkeypatch.setattr(least_squares, "SAMPLES", 30)
    places = np.arange(50, dtype=np.float32)[:, None]
    made = []
    for path in (tmp_path / "a", tmp_path / "b"):
        spool = Spool(path, 3)
        for _ in range(3):
            spool.add(places, -places)
        made.append(spool.samples())
    first, again = made
    np.testing.assert_array_equal(first.inputs, again.inputs)
    np.testing.assert_array_equal(first.inputs[:, 0], -first.outputs[:, 0])
    runs = first.inputs[:, 0].reshape(3, 10)
    assert (np.diff(runs, axis=1) > 0).all()
    assert len(np.unique(runs)) > 15
