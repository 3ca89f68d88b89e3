"""Masks that float16 can hold."""

from __future__ import annotations

import numpy as np
import pytest

from graph_rewrites.clip_mask import clip_mask
from msd.graph.ir import Build, Tensor
from msd.graph.rewrite import SMALL, apply
from tests.half import in_half, overflowed
from tests.harness import build, check_no_rewrite, check_rewrite, check_untouched, evaluate, feeds_for

LOWEST = np.finfo(np.float32).min


def causal(n: int, masked: float) -> np.ndarray:
    return (
        np.triu(np.full((n, n), masked, np.float32), 1)
        if np.isfinite(masked)
        else np.where(np.triu(np.ones((n, n)), 1) > 0, masked, 0).astype(np.float32)
    )


def attended(mask: np.ndarray, flip: bool = False):  # type: ignore[no-untyped-def]
    def spell(new: Build, x: Tensor) -> Tensor:
        operands = (new.const(mask), x) if flip else (x, new.const(mask))
        return new.SOFTMAX(new.ADD(*operands), beta=1.0)

    return spell


@pytest.mark.parametrize("masked", [-np.inf, LOWEST, -1e9, -40000.0])
@pytest.mark.parametrize("flip", [False, True])
def test_a_causal_mask(masked: float, flip: bool) -> None:
    check_rewrite(
        [clip_mask],
        attended(causal(5, masked), flip),
        attended(causal(5, -30000)),
        tolerance=1e-6,
        x=(2, 3, 5, 5),
    )


def test_float16_can_then_compute_it() -> None:
    graph = build(attended(causal(5, LOWEST)), x=(1, 2, 5, 5))
    feeds = feeds_for(graph)
    want = evaluate(graph, feeds)[0]
    assert overflowed(in_half(graph, feeds)) == ["ADD"]
    apply(graph, [clip_mask])
    results = in_half(graph, feeds)
    assert overflowed(results) == []
    np.testing.assert_allclose(results[graph.outputs[0]], want, atol=5e-3)


def test_not_when_float16_holds_it() -> None:
    before = attended(causal(5, -30000))
    check_no_rewrite([clip_mask], before, because="float16 can represent all its numbers", x=(1, 2, 5, 5))


def test_not_a_mask_too_large_to_look_at() -> None:
    assert SMALL < 260 * 260
    before = attended(causal(260, -np.inf))
    because = "the mask is too large to read"
    check_no_rewrite([clip_mask], before, because=because, x=(1, 1, 260, 260))


def test_not_when_the_masked_scores_are_also_used_elsewhere() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        scores = new.ADD(x, new.const(causal(5, -np.inf)))
        return new.SOFTMAX(scores, beta=1.0), scores

    check_no_rewrite([clip_mask], before, because="the inner ADD is also used elsewhere", x=(1, 2, 5, 5))


@pytest.mark.parametrize("attrs", [{"beta": 0.5}, {"beta": 1.0, "fused_activation_function": "RELU"}])
def test_only_a_plain_softmax(attrs: dict[str, object]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        extra = {k: v for k, v in attrs.items() if k != "beta"}
        return new.SOFTMAX(new.ADD(x, new.const(causal(5, -1e9)), **extra), beta=attrs["beta"])

    check_untouched([clip_mask], before, x=(1, 2, 5, 5))
