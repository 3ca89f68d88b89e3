"""Attention scores are scaled before the product, which float16 can then represent, and in the weights."""

import numpy as np

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var

CONV = {"padding": ANY, "stride_w": ANY, "stride_h": ANY, "dilation_w_factor": ANY, "dilation_h_factor": ANY}
DENSE = op.FULLY_CONNECTED(var("x"), const("w"), const("b"), keep_num_dims=ANY).named("layer")
LAYER = op.CONV_2D(var("x"), const("w"), const("b"), **CONV).named("layer")


@rule("fuse", op.BATCH_MATMUL(var("q"), var("k"), adj_x=ANY, adj_y=ANY).named("s") * const("c"))
def scale_query(new: Build, q: Tensor, k: Tensor, s: Tensor, c: Tensor) -> Tensor | Skip:
    """(q . k) * c  =>  (q * c) . k"""
    if not _is_number(c, s):
        return skip("the factor is not one number")
    return new.again(s.maker, _times(new, q, c), k)


@rule("fuse", op.RESHAPE(var("x"), const("shape"), new_shape=ANY).named("r") * const("c"))
def scale_before_reshape(new: Build, x: Tensor, r: Tensor, c: Tensor) -> Tensor | Skip:
    """RESHAPE(x) * c  =>  RESHAPE(x * c)"""
    if not _is_number(c, r) or not _reaches_layer(x):
        return skip("the factor is not one number, or no layer before it absorbs it")
    return new.RESHAPE(_times(new, x, c), list(r.shape))


@rule("fuse", op.TRANSPOSE(var("x"), const("perm")).named("t") * const("c"))
def scale_before_transpose(new: Build, x: Tensor, perm: Tensor, t: Tensor, c: Tensor) -> Tensor | Skip:
    """TRANSPOSE(x) * c  =>  TRANSPOSE(x * c)"""
    if not _is_number(c, t) or not _reaches_layer(x):
        return skip("the factor is not one number, or no layer before it absorbs it")
    return new.TRANSPOSE(_times(new, x, c), perm)


def _reaches_layer(x: Tensor) -> bool:
    """Whether a factor can move from `x` back to a layer or product that absorbs it."""
    maker = x.producer
    if maker is None or len(x.uses) != 1:
        return False
    if maker.kind in ("RESHAPE", "TRANSPOSE"):
        return _reaches_layer(maker.operands[0])
    if maker.kind in ("CONV_2D", "FULLY_CONNECTED"):
        return bool(maker.attrs["fused_activation_function"] == "NONE")
    return maker.kind == "BATCH_MATMUL"


def _is_number(c: Tensor, beside: Tensor) -> bool:
    """Whether `c` is one number, of no higher rank than the tensor it multiplies."""
    return c.size == 1 and len(c.shape) <= len(beside.shape)


def _times(new: Build, x: Tensor, c: Tensor) -> Tensor:
    return new.MUL(x, new.const(c.weights.reshape(()), c.name))


def _scaled(new: Build, x: Tensor, w: Tensor, b: Tensor, c: Tensor, layer: Tensor) -> Tensor | Skip:
    if not _is_number(c, layer) or w.quant:
        return skip("the factor is not one number, or the layer is quantised")
    by = np.float32(c.values().reshape(-1)[0])
    weights = new.const(w.weights.map_each(f"* {by}", lambda a: a * by), w.name)
    bias = new.const(b.weights.map_each(f"* {by}", lambda a: a * by), b.name)
    return new.again(layer.maker, x, weights, bias)


@rule("fuse", DENSE * const("c"))
def fold_scale_into_dense(
    new: Build, x: Tensor, w: Tensor, b: Tensor, c: Tensor, layer: Tensor
) -> Tensor | Skip:
    """FULLY_CONNECTED(x, w, b) * c  =>  FULLY_CONNECTED(x, w * c, b * c)"""
    return _scaled(new, x, w, b, c, layer)


@rule("fuse", LAYER * const("c"))
def fold_scale_into_conv(
    new: Build, x: Tensor, w: Tensor, b: Tensor, c: Tensor, layer: Tensor
) -> Tensor | Skip:
    """CONV_2D(x, w, b) * c  =>  CONV_2D(x, w * c, b * c)"""
    return _scaled(new, x, w, b, c, layer)
