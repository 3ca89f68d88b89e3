"""Scores on arrays: against definitions, and against what is left when units really go."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.compress.pruning.criteria import Scores, activation, energies, magnitude, reconstruction
from msd.compress.pruning.layer import matrix, replace_weights, rows
from msd.compress.pruning.layout import UnitLayout
from msd.compress.pruning.relations import tensor_at
from msd.compress.pruning.units import find_units
from msd.graph.ir import Build
from msd.graph.ir.weights import Array, Weights
from tests.harness import build, conv, dense, evaluate, normal
from tests.pruned_graphs import geglu, resnet


def test_energies_are_sums_of_squares_of_each_index() -> None:
    values = normal(6, 2 * 3 * 5, 7)
    layout = UnitLayout(6, 2, 3, 5 * 7)
    want = np.square(values.reshape(6, 2, 3, 35)).sum(axis=(0, 3))
    np.testing.assert_allclose(energies(values, layout), want, rtol=1e-5)


def test_magnitude_counts_every_constant_alike() -> None:
    """A tenfold gamma changes nothing: what counts is an index among its own constant's."""
    graph = build(lambda new, x, t: resnet(new, x, t, 6), x=(1, 4, 3, 24), t=(1, 7))
    (unit,) = find_units(graph).units
    scores = magnitude(graph, unit.seed)
    gamma = next(t for t in unit.members if t.name == "block.norm2.gamma")
    gamma.data = gamma.weights.map("tenfold", lambda a: 10 * a)
    np.testing.assert_allclose(magnitude(graph, unit.seed).cost, scores.cost, rtol=1e-5)
    constants = 7
    assert scores.total == pytest.approx(24 * constants, rel=1e-6)


def test_magnitude_of_a_gated_net() -> None:
    """Both halves and the next layer's column: written out."""
    graph = build(lambda new, x: geglu(new, x, 8), x=(1, 5, 6))
    (unit,) = find_units(graph).units
    values = {t.name: t.values().astype(np.float64) for t in unit.members}
    want = np.zeros(8)
    for name, array in values.items():
        each = (array**2).sum(1) if name == "ff.net.2" else (array**2).reshape(-1, 2, 8).sum((0, 1))
        want += each / each.mean()
    scores = magnitude(graph, unit.seed)
    np.testing.assert_array_equal(scores.order[0], np.argsort(want))
    np.testing.assert_allclose(scores.cost[0], np.sort(want), rtol=1e-5)


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 6), st.data())
def test_kept_and_lost_add_up(groups: int, count: int, data: st.DataObject) -> None:
    energy = np.random.default_rng(groups * 10 + count).random((groups, count))
    scores = Scores.of(energy)
    keep = data.draw(st.integers(1, count))
    kept = np.take_along_axis(energy, scores.kept(keep), axis=1)
    assert (np.diff(scores.kept(keep), axis=1) > 0).all()
    assert 1 - kept.sum() / energy.sum() == pytest.approx(scores.error(keep), abs=1e-9)
    for row, best in zip(energy, kept, strict=True):
        assert best.min() >= np.sort(row)[count - keep]


def samples(correlated: bool) -> tuple[Array, Array]:
    """300 inputs of 8, and weights of 5 outputs."""
    z = normal(300, 8, seed=1)
    if correlated:
        z[:, 5] = z[:, 2] + np.float32(0.01) * z[:, 5]
        z[:, 7] = z[:, 0] + z[:, 1] + np.float32(0.01) * z[:, 7]
    return z, normal(5, 8, seed=2)


def lost(z: Array, w: Array, kept: list[int]) -> float:
    """What the best weights for the inputs `kept` lose."""
    y = (z @ w.T).astype(np.float64)
    best = np.linalg.lstsq(z[:, kept].astype(np.float64), y, rcond=None)[0]
    return float(np.square(y - z[:, kept] @ best).sum())


def test_activation_is_the_loss_where_inputs_are_not_correlated() -> None:
    z, w = np.linalg.qr(samples(False)[0].astype(np.float64))[0], samples(False)[1]
    scores = activation(w, np.square(z).sum(0), UnitLayout(1, 1, 8, 1), float(np.square(z @ w.T).sum()))
    for keep in range(1, 8):
        want = lost(z, w, scores.kept(keep)[0].tolist())
        assert scores.error(keep) * scores.total == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("correlated", [False, True])
def test_reconstruction_costs_what_a_refit_loses(correlated: bool) -> None:
    """To the last index: the costs of all that went are the loss of the best weights for the rest."""
    z, w = samples(correlated)
    gram = z.astype(np.float64).T @ z
    total = float(np.square(z @ w.T).sum())
    scores = reconstruction(w, gram, UnitLayout(1, 1, 8, 1), total, ridge=1e-12)
    for keep in range(1, 8):
        want = lost(z, w, scores.kept(keep)[0].tolist())
        assert scores.error(keep) * total == pytest.approx(want, rel=1e-4, abs=1e-4 * total)
    assert scores.cost.sum() == pytest.approx(total, rel=1e-4)


def test_reconstruction_finds_what_others_make_up_for() -> None:
    """Inputs that are sums of others go first, as in the best of all choices."""
    z, w = samples(True)
    scores = reconstruction(w, z.astype(np.float64).T @ z, UnitLayout(1, 1, 8, 1), 1.0, ridge=1e-12)
    best = min((lost(z, w, list(kept)), kept) for kept in combinations(range(8), 6))[1]
    assert tuple(scores.kept(6)[0]) == best


def test_reconstruction_by_groups_and_blocks() -> None:
    """Each group loses one a round; an index's inputs go together."""
    z, w = samples(True)
    scores = reconstruction(w, z.astype(np.float64).T @ z, UnitLayout(1, 2, 2, 2), 1.0, ridge=1e-12)
    members = np.arange(8).reshape(2, 2, 2)
    kept = sorted(members[np.arange(2)[:, None], scores.kept(1)].reshape(-1).tolist())
    assert scores.cost[:, :1].sum() == pytest.approx(lost(z, w, kept), rel=1e-4)


@given(
    groups=st.integers(1, 3),
    count=st.integers(1, 5),
    before=st.integers(1, 3),
    after=st.integers(1, 2),
    ranks=st.integers(1, 20),
)
@settings(deadline=None, max_examples=60)
def test_each_round_removes_what_the_best_weights_for_the_rest_miss_least(
    groups: int, count: int, before: int, after: int, ranks: int
) -> None:
    """However many ranks the inverse of the Gram matrix is behind."""
    layout, inputs = UnitLayout(before, groups, count, after), before * groups * count * after
    z, w = normal(3 * inputs + 5, inputs).astype(np.float64), normal(7, inputs, seed=2).astype(np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msd.compress.pruning.criteria.RANKS", ranks)
        scores = reconstruction(w, z.T @ z, layout, 1.0, ridge=1e-12)
    members = np.arange(inputs).reshape(layout.shape).transpose(1, 2, 0, 3).reshape(groups, count, -1)
    gone: set[int] = set()
    for step in range(count):
        for group in range(groups):
            left = [index for index in range(count) if index not in scores.order[group, :step]]
            losses = [lost(z, w, remaining(inputs, gone | set(members[group, index]))) for index in left]
            found = losses[left.index(scores.order[group, step])]
            assert found == pytest.approx(min(losses), rel=1e-6)
            already = lost(z, w, remaining(inputs, gone))
            assert scores.cost[group, step] == pytest.approx(found - already, rel=1e-6, abs=1e-6)
            gone |= set(members[group, scores.order[group, step]])


def remaining(inputs: int, gone: set[int]) -> list[int]:
    return [index for index in range(inputs) if index not in gone]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_patches_are_what_a_convolution_multiplies(same: bool, stride: int, dilation: int) -> None:
    attrs = {
        "padding": "SAME" if same else "VALID",
        "stride_h": stride,
        "stride_w": stride,
        "dilation_h_factor": dilation,
        "dilation_w_factor": dilation,
    }
    graph = build(lambda new, x: conv(new, x, 5, (3, 2), **attrs), x=(2, 8, 7, 3))
    (op,) = graph.ops
    x = normal(2, 8, 7, 3, seed=9)
    (want,) = evaluate(graph, {"x": x})
    got = rows(op, x) @ matrix(op).load().T + tensor_at(op, 2).values()
    np.testing.assert_allclose(got.reshape(want.shape), want, atol=1e-4)


@pytest.mark.parametrize("kind", ["BATCH_MATMUL", "adj_y", "FULLY_CONNECTED", "CONV_2D"])
def test_weights_taken_out_and_put_back(kind: str) -> None:
    """Doubled, the layer's output doubles."""

    def spell(new: Build, x: object) -> object:
        if kind == "CONV_2D":
            return new.CONV_2D(x, new.TRANSPOSE(new.const(normal(3, 3, 4, 6)), [3, 0, 1, 2]), [0.0] * 6,
                               padding="SAME", stride_h=1, stride_w=1)  # fmt: skip
        if kind == "FULLY_CONNECTED":
            return dense(new, x, 6)  # type: ignore[arg-type]
        matrix = normal(6, 4) if kind == "adj_y" else normal(4, 6)
        return new.BATCH_MATMUL(x, new.const(matrix), adj_y=kind == "adj_y")

    graph = build(spell, x=(1, 5, 3, 4))  # type: ignore[arg-type]
    op = next(o for o in graph.ops if o.kind != "TRANSPOSE")
    if kind == "FULLY_CONNECTED":
        op.inputs = (*op.inputs[:2], Build().const(np.zeros(6, np.float32)))
    x = {"x": normal(1, 5, 3, 4, seed=3)}
    (before,) = evaluate(graph, x)
    twice = matrix(op).map("twice", lambda a: 2 * a)
    replace_weights(op, twice, ("w",))
    graph.remove_dead()
    (after,) = evaluate(graph, x)
    np.testing.assert_allclose(after, 2 * before, rtol=1e-5, atol=1e-5)
    assert isinstance(tensor_at(op, 1).data, Weights)
    assert tensor_at(op, 1).weights.sources == ("w",)
