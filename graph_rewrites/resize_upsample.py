"""Nearest-neighbour upsampling written as TILE of rank 5 becomes one resize."""

from msd.graph.rewrite import ANY, Build, Pat, Skip, Tensor, const, op, rule, skip, var


def _reshape(x: Pat, name: str) -> Pat:
    return op.RESHAPE(x, const(name), new_shape=ANY)


ROWS = op.TILE(_reshape(var("x"), "a").named("wide"), const("down"))
BOTH = op.TILE(_reshape(ROWS, "b").named("tall"), const("across"))


@rule("fuse", _reshape(BOTH, "c").named("y"))
def resize_upsample(
    new: Build, x: Tensor, wide: Tensor, tall: Tensor, down: Tensor, across: Tensor, y: Tensor
) -> Tensor | Skip:
    """TILE of rows, then of columns, through rank 5  =>  RESIZE_NEAREST_NEIGHBOR"""
    if len(x.shape) != 4 or len(y.shape) != 4:
        return skip("it does not upsample an image")
    n, h, w, channels = x.shape
    up, side = y.shape[1] // h, y.shape[2] // w
    if y.shape != (n, h * up, w * side, channels):
        return skip("its result is not an image upsampled by whole factors")
    if wide.shape != (n, h, 1, w, channels) or tuple(down.values()) != (1, 1, up, 1, 1):
        return skip("the first repeat is not of rows")
    if tall.shape != (n, h * up, w, 1, channels) or tuple(across.values()) != (1, 1, 1, side, 1):
        return skip("the second repeat is not of columns")
    return new.RESIZE_NEAREST_NEIGHBOR(x, list(y.shape[1:3]))
