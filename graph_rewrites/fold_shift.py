"""A constant added to the input of a pointwise layer moves into its bias."""

import numpy as np

from msd.graph.rewrite import ANY, Array, Build, Op, Skip, Tensor, Weights, const, op, rule, skip, var


@rule(
    "cleanup",
    op.CONV_2D(
        op.ADD(var("x"), const("shift")).named("shifted"),
        const("w"),
        const("b"),
        padding=ANY,
        stride_h=1,
        stride_w=1,
        fused_activation_function=ANY,
    ).named("y"),
    shared=True,
)
def fold_shift(
    new: Build, x: Tensor, shift: Tensor, shifted: Tensor, w: Tensor, b: Tensor, y: Tensor
) -> Tensor | Skip:
    """CONV_2D 1x1 (x + shift, w, b)  =>  CONV_2D 1x1 (x, w, b + w . shift), if only layers read x + shift"""
    _, kh, kw, inputs = w.shape
    if (kh, kw) != (1, 1) or inputs != x.shape[-1] or w.quant:
        return skip("the layer is not pointwise, or is quantised already")
    if shift.size != inputs or shift.shape[-1:] != (inputs,) or x.shape != shifted.shape:
        return skip("the shift is not one number per channel")
    if not all(_is_pointwise(user, i) for user, i in shifted.uses):
        return skip("the shifted value is also used elsewhere")
    return new.again(y.maker, x, w, new.const(_shifted_bias(w.weights, b.weights, shift.weights), b.name))


def _is_pointwise(user: Op, position: int) -> bool:
    if user.kind != "CONV_2D" or position != 0:
        return False
    return user.operands[1].data is not None and user.operands[1].shape[1:3] == (1, 1)


def _shifted_bias(w: Weights, b: Weights, shift: Weights) -> Weights:
    """Return b + w . shift, computed when the file is written."""

    def change(bias: Array) -> Array:
        by = np.asarray(shift.load(), np.float32).reshape(-1)
        products = [_product(np.asarray(rows, np.float32), by) for _, rows in w.blocks()]
        return np.asarray(bias + np.concatenate(products), np.float32)

    return b.map(f"+ w . ({shift.history})", change)


def _product(rows: Array, by: Array) -> Array:
    """Return the products of all rows with `by`, four rows at a time.

    OpenBLAS shares larger products out to threads of its own, which keep the cores busy while they wait.
    """
    rows, many = rows.reshape(len(rows), -1), len(rows) - len(rows) % 4
    fours = rows[:many].reshape(many // 4, 4, by.size) @ by
    return np.concatenate([fours.reshape(-1), rows[many:] @ by])
