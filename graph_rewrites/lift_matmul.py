"""Products of two runtime tensors become rank 4; TensorFlow Lite's delegate ignores their adj flags."""

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var

PRODUCT = op.BATCH_MATMUL(var("a"), var("b"), adj_x=ANY, adj_y=ANY).named("y")
SWAPPED = op.TRANSPOSE(var("b"), const("perm"))


@rule("lower", PRODUCT)
def lift_matmul(new: Build, a: Tensor, b: Tensor, y: Tensor) -> Tensor | Skip:
    """BATCH_MATMUL of rank 3  =>  RESHAPE(BATCH_MATMUL of rank 4)"""
    if len(a.shape) != 3 or len(b.shape) != 3:
        return skip("it is not of rank 3")
    left, right = new.RESHAPE(a, [1, *a.shape]), new.RESHAPE(b, [1, *b.shape])
    return new.RESHAPE(new.again(y.maker, left, right), list(y.shape))


@rule("lower", PRODUCT, spells=("attention_key", "transposed"))
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


@rule("lower", op.BATCH_MATMUL(var("a"), SWAPPED, adj_x=ANY).named("y"), spells=("attention_key", "adj_y"))
def flag_transposed_matmul(new: Build, a: Tensor, b: Tensor, perm: Tensor, y: Tensor) -> Tensor | Skip:
    """BATCH_MATMUL(a, TRANSPOSE(b, [.., c, i]))  =>  BATCH_MATMUL(a, TRANSPOSE(b, [.., i, c])) {adj_y}"""
    *outer, inner, last = perm.values().tolist()
    if len(b.shape) != 4 or inner != 3:
        return skip("the transpose is not of the channels of rank 4")
    order = [*outer, last, inner]
    rows = b if order == [0, 1, 2, 3] else new.TRANSPOSE(b, order)
    return new.BATCH_MATMUL(a, rows, adj_x=y.maker.attrs["adj_x"], adj_y=True)


def _transposed(new: Build, x: Tensor) -> Tensor:
    axes = list(range(len(x.shape)))
    return new.TRANSPOSE(x, [*axes[:-2], axes[-1], axes[-2]])
