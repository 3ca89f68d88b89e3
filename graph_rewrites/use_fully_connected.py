"""A matrix product with a constant becomes a fully connected layer."""

import numpy as np

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var


@rule(
    "canonicalize",
    op.BATCH_MATMUL(var("x"), const("w"), adj_y=ANY, asymmetric_quantize_inputs=ANY).named("y"),
)
def use_fully_connected(new: Build, x: Tensor, w: Tensor, y: Tensor) -> Tensor | Skip:
    """BATCH_MATMUL(x, constant (I, O))  =>  FULLY_CONNECTED(x, constant (O, I), 0) {keep_num_dims}"""
    if len(w.shape) != 2 or w.dtype != "FLOAT32":
        return skip(f"the constant of shape {list(w.shape)} is not one matrix of floats")
    kernel = w.weights if y.maker.attrs["adj_y"] else w.weights.transpose((1, 0))
    bias = new.const(np.zeros(kernel.shape[0], np.float32), f"{w.name}/bias")
    return new.FULLY_CONNECTED(x, new.const(kernel, w.name), bias, keep_num_dims=True)
