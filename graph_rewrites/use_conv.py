"""Fully connected to Conv2D (arXiv 2307.01193, section 3.1): every delegate runs 1x1 convolutions."""

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var


@rule(
    "lower",
    op.FULLY_CONNECTED(
        var("x"), const("w"), const("b"), keep_num_dims=ANY, fused_activation_function=ANY
    ).named("y"),
)
def use_conv(new: Build, x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> Tensor | Skip:
    """FULLY_CONNECTED(x (B, ..., I), w (O, I), b)  =>  CONV_2D(x (B, H, W, I), w (O, 1, 1, I), b)"""
    outputs, inputs = w.shape
    if x.shape[-1] != inputs or w.quant:
        return skip("the layer flattens its input across channels, or is quantised already")
    kernel = new.const(w.weights.reshape((outputs, 1, 1, inputs)), w.name)
    image = x if len(x.shape) == 4 else new.RESHAPE(x, _rank4(x.shape))
    activation = y.maker.attrs["fused_activation_function"]
    result = new.CONV_2D(
        image, kernel, b, padding="VALID", stride_h=1, stride_w=1, fused_activation_function=activation
    )
    return result if result.shape == y.shape else new.RESHAPE(result, list(y.shape))


def _rank4(shape: tuple[int, ...]) -> list[int]:
    """Return the delegates' rank 4 shape: (1, 1, 1, C) for (C), (B, 1, 1, C), (B, 1, N, C) for (B, N, C)."""
    if len(shape) == 1:
        return [1, 1, 1, *shape]
    batch, *rest, channels = shape
    places = 1
    for n in rest:
        places *= n
    return [batch, 1, places, channels]
