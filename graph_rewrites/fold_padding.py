"""Zero padding moves into the convolution that reads it."""

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var


@rule(
    "fuse",
    op.CONV_2D(
        op.PAD(var("x"), const("pads")),
        const("w"),
        const("b"),
        padding="VALID",
        stride_h=1,
        stride_w=1,
        fused_activation_function=ANY,
    ).named("y"),
)
def fold_padding(new: Build, x: Tensor, pads: Tensor, w: Tensor, b: Tensor, y: Tensor) -> Tensor | Skip:
    """CONV_2D(PAD(x)) {VALID}  =>  CONV_2D(x) {SAME}, where both pad alike"""
    _, kh, kw, _ = w.shape
    same = [[0, 0], [(kh - 1) // 2, kh // 2], [(kw - 1) // 2, kw // 2], [0, 0]]
    if pads.values().tolist() != same:
        return skip(f"padding {pads.values().tolist()} is not what SAME means for a {kh}x{kw} filter")
    return new.again(y.maker, x, w, b, padding="SAME")
