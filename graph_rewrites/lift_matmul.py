"""Products of two runtime tensors become rank 4 and lose the adj flags, which delegates ignore."""

from msd.rewrite import ANY, Build, Skip, Tensor, op, rule, skip, var

PRODUCT = op.BATCH_MATMUL(var("a"), var("b"), adj_x=ANY, adj_y=ANY).named("y")


@rule("lower", PRODUCT)
def lift_matmul(new: Build, a: Tensor, b: Tensor, y: Tensor) -> Tensor | Skip:
    """BATCH_MATMUL of rank 3  =>  RESHAPE(BATCH_MATMUL of rank 4)"""
    if len(a.shape) != 3 or len(b.shape) != 3:
        return skip("it is not of rank 3")
    left, right = new.RESHAPE(a, [1, *a.shape]), new.RESHAPE(b, [1, *b.shape])
    return new.RESHAPE(new.again(y.maker, left, right), list(y.shape))


@rule("lower", PRODUCT)
def transpose_matmul(new: Build, a: Tensor, b: Tensor, y: Tensor) -> Tensor | Skip:
    """BATCH_MATMUL(a, b) {adj}  =>  BATCH_MATMUL with an explicit TRANSPOSE"""
    attrs = y.maker.attrs
    if not attrs["adj_x"] and not attrs["adj_y"]:
        return skip("it has no adj flag")
    if len(a.shape) == len(b.shape) == 3:
        return skip("it is of rank 3; lift_matmul applies first")
    left = _transposed(new, a) if attrs["adj_x"] else a
    right = _transposed(new, b) if attrs["adj_y"] else b
    return new.BATCH_MATMUL(left, right)


def _transposed(new: Build, x: Tensor) -> Tensor:
    axes = list(range(len(x.shape)))
    return new.TRANSPOSE(x, [*axes[:-2], axes[-1], axes[-2]])
