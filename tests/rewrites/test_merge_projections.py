"""Projections of one source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graph_rewrites.merge_projections import merge_projections
from msd.graph.ir import Build, Tensor
from msd.graph.prediction.device import Device
from msd.graph.rewrite import Target
from msd.graph.rewrite.spelling import spelling_of
from tests.harness import Ints, check_rewrite, check_untouched, conv, normal

HEADS, WIDTH, PLACES = 3, 4, 5
CHANNELS = HEADS * WIDTH
SPLIT_HEADS, KEYS = [0, 2, 1, 3], [0, 2, 3, 1]
QKV = [SPLIT_HEADS, KEYS, SPLIT_HEADS]


def projected(new: Build, x: Tensor, seed: int, inputs: int = 0, **attrs: Any) -> Tensor:
    w = new.const(normal(CHANNELS, 1, 1, inputs or x.shape[3], seed=seed))
    b = new.const(normal(CHANNELS, seed=seed + 50))
    return new.CONV_2D(x, w, b, **{"stride_h": 1, "stride_w": 1, **attrs})


def cut(new: Build, y: Tensor, shape: list[int], perm: list[int]) -> Tensor:
    return new.TRANSPOSE(new.RESHAPE(y, shape), perm)


def heads(new: Build, x: Tensor, seed: int, perm: list[int], batch: int = 1, **attrs: Any) -> Tensor:
    """One projection of `x`, cut into heads."""
    y = projected(new, x, seed, **attrs)
    return cut(new, y, [batch, y.size // CHANNELS // batch, HEADS, WIDTH], perm)


def merged(new: Build, x: Tensor, perms: list[list[int]], batch: int = 1, **attrs: Any) -> list[Tensor]:
    """What becomes of as many projections as there are `perms`."""
    n = len(perms)
    y = conv(new, x, CHANNELS * n, **attrs)
    every = cut(new, y, [batch, y.size // CHANNELS // n // batch, HEADS * n, WIDTH], SPLIT_HEADS)
    parts = zip(new.SPLIT(1, every, n), perms, strict=True)
    return [part if perm == SPLIT_HEADS else new.TRANSPOSE(part, [0, 1, 3, 2]) for part, perm in parts]


def attention(new: Build, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return new.BATCH_MATMUL(new.SOFTMAX(new.BATCH_MATMUL(q, k), beta=1.0), v)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("flat", [False, True])
def test_queries_keys_and_values(batch: int, flat: bool) -> None:
    """Batches may lie on their own axis or, as after a reshape, one behind the other."""
    shape = (1, 1, batch * PLACES, 7) if flat else (batch, 1, PLACES, 7)

    def before(new: Build, x: Tensor) -> Tensor:
        return attention(new, *(heads(new, x, i, perm, batch) for i, perm in enumerate(QKV, 1)))

    def after(new: Build, x: Tensor) -> Tensor:
        return attention(new, *merged(new, x, QKV, batch))

    check_rewrite([merge_projections], before, after, tolerance=1e-4, x=shape)


def test_keys_and_values_of_another_source() -> None:
    def before(new: Build, x: Tensor, context: Tensor) -> Tensor:
        q = heads(new, x, 1, SPLIT_HEADS)
        return attention(new, q, heads(new, context, 2, KEYS), heads(new, context, 3, SPLIT_HEADS))

    def after(new: Build, x: Tensor, context: Tensor) -> Tensor:
        q = heads(new, x, 1, SPLIT_HEADS)
        return attention(new, q, *merged(new, context, QKV[1:]))

    shapes = {"x": (1, 1, 6, 7), "context": (1, 1, PLACES, 2)}
    check_rewrite([merge_projections], before, after, tolerance=1e-4, **shapes)


def test_an_activation_all_have_is_kept() -> None:
    relu = {"fused_activation_function": "RELU"}

    def before(new: Build, x: Tensor) -> Tensor:
        return new.ADD(heads(new, x, 1, SPLIT_HEADS, **relu), heads(new, x, 2, SPLIT_HEADS, **relu))

    def after(new: Build, x: Tensor) -> Tensor:
        return new.ADD(*merged(new, x, [SPLIT_HEADS] * 2, **relu))

    check_rewrite([merge_projections], before, after, x=(1, 2, 3, 7))


def five(new: Build, x: Tensor) -> Tensor:
    return new.CONCATENATION(*(heads(new, x, i, SPLIT_HEADS) for i in range(1, 6)), axis=1)


def five_by_two(new: Build, x: Tensor) -> Tensor:
    pairs = [part for _ in range(2) for part in merged(new, x, [SPLIT_HEADS] * 2)]
    return new.CONCATENATION(*pairs, heads(new, x, 5, SPLIT_HEADS), axis=1)


def all_five(new: Build, x: Tensor) -> Tensor:
    return new.CONCATENATION(*merged(new, x, [SPLIT_HEADS] * 5), axis=1)


@pytest.mark.parametrize(("most", "after"), [(2, five_by_two), (5, all_five)])
def test_as_many_as_the_device_holds(most: int, after: Any) -> None:
    target = Target(replace(Device(), image2d_width=most * CHANNELS // 4))
    check_rewrite([merge_projections], five, after, target=target, x=(1, 2, 3, 7))


def test_no_more_weights_than_a_tensor_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graph_rewrites.merge_projections.LARGEST", 3 * CHANNELS * 7 - 1)
    check_rewrite([merge_projections], five, five_by_two, x=(1, 2, 3, 7))


def test_not_where_the_device_holds_one() -> None:
    target = Target(replace(Device(), image2d_width=CHANNELS // 4))
    check_untouched([merge_projections], five, target=target, x=(1, 2, 3, 7))


@pytest.mark.parametrize(
    "second",
    [
        lambda new, x: heads(new, x, 2, SPLIT_HEADS, fused_activation_function="RELU"),
        lambda new, x: heads(new, new.TANH(x), 2, SPLIT_HEADS),
        lambda new, x: cut(new, conv(new, x, CHANNELS, (3, 3)), [1, 6, HEADS, WIDTH], SPLIT_HEADS),
        lambda new, x: new.RESHAPE(heads(new, x, 2, [0, 1, 2, 3]), [1, HEADS, 6, WIDTH]),
    ],
    ids=["activation", "source", "3x3", "order"],
)
def test_not_branches_that_differ(second: Any) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.ADD(heads(new, x, 1, SPLIT_HEADS), second(new, x))

    check_untouched([merge_projections], before, x=(1, 2, 3, 8))


def two(new: Build, branch: Any) -> Tensor:
    return new.ADD(branch(1), branch(2))


def test_not_where_heads_are_not_cut_from_the_channels() -> None:
    """6 places of 12 channels read as 18 places of 4: parts of a merged row could not be told apart."""

    def before(new: Build, x: Tensor) -> Tensor:
        return two(new, lambda seed: cut(new, projected(new, x, seed), [1, 18, 1, 4], SPLIT_HEADS))

    check_untouched([merge_projections], before, x=(1, 2, 3, 7))


@pytest.mark.parametrize("attrs", [{"stride_h": 2}, {"stride_w": 2}, {"inputs": 4}])
def test_not_strided_or_grouped(attrs: dict[str, int]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return two(new, lambda seed: heads(new, x, seed, SPLIT_HEADS, **attrs))

    check_untouched([merge_projections], before, x=(1, 4, 6, 8))


@pytest.mark.parametrize("sent", [0, 1, 2], ids=["convolution", "heads", "result"])
def test_not_where_a_part_is_an_output(sent: int) -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        total = two(new, lambda seed: heads(new, x, seed, SPLIT_HEADS))
        return total, new.ops[sent].outputs[0]

    check_untouched([merge_projections], before, x=(1, 2, 3, 7))


def test_not_an_order_that_is_not_known() -> None:
    def before(new: Build, x: Tensor, perm: Tensor) -> Tensor:
        total = two(new, lambda seed: heads(new, x, seed, SPLIT_HEADS))
        for o in new.ops:
            if o.kind == "TRANSPOSE":
                o.inputs = (o.inputs[0], perm)
        return total

    check_untouched([merge_projections], before, x=(1, 2, 3, 7), perm=Ints((4,)))


def test_projections_stay_apart_where_the_spelling_has_them_so() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        shape = [2, PLACES, HEADS, WIDTH]
        return tuple(cut(new, projected(new, x, seed), shape, perm) for seed, perm in enumerate(QKV))

    target = Target(spelling=spelling_of("", {"projections": "separate"}))
    check_untouched([merge_projections], before, target=target, x=(2, 1, PLACES, 7))
