"""Cases of lookups, casts and choices, and of operations that delegates do not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msd.graph.ir import Tensor
from tests.oracle.case import Case, given, ints, model, numbers, op, scalar
from tests.oracle.cases_shapes import DTYPES, RANKS, SHAPE, one


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    yield from _gather()
    yield from _embedding_lookup()
    yield from _cast()
    yield from _select()
    yield from _one_hot()
    yield from _dynamic_update_slice()
    yield from _other()


def _gather() -> Iterator[Case]:
    for shape in RANKS[1:]:
        for axis in range(len(shape)):
            result = tuple(4 if i == axis else n for i, n in enumerate(shape))
            name = f"GATHER rank {len(shape)} axis {axis}"
            two = [given(*shape), ints(1, 0, 1, 1)]
            yield one(name, two, (result, "FLOAT32"), axis=axis)
    rows = ((4, 8), "FLOAT32")
    yield one("GATHER a constant table", [numbers(11, 8), given(4, dtype="INT32")], rows)
    yield one(
        "GATHER a FLOAT16 table",
        [numbers(11, 8, dtype="FLOAT16"), given(4, dtype="INT32")],
        ((4, 8), "FLOAT16"),
    )
    table = numbers(11, 8, dtype="INT8", scales=1)
    yield one("GATHER an INT8 table", [table, given(4, dtype="INT32")], given(4, 8, dtype="INT8", scale=0.01))
    yield one("GATHER runtime both", [given(11, 8), given(4, dtype="INT32")], rows)
    yield one("GATHER INT64 indices", [given(11, 8), ints(1, 0, 2, 2, dtype="INT64")], rows)
    yield one("GATHER 2-D indices", [given(11, 8), ints((1, 0), (2, 2))], ((2, 2, 8), "FLOAT32"))
    yield one("GATHER scalar index", [given(11, 8), scalar(1, "INT32")], ((8,), "FLOAT32"))
    yield one("GATHER negative axis", [given(11, 8), ints(1, 0, 2, 2)], ((11, 4), "FLOAT32"), axis=-1)
    yield one("GATHER of constants", [numbers(11, 8), ints(1, 0, 2, 2)], rows)
    for version in range(2, 5):
        two = [given(11, 8), ints(1, 0, 2, 2)]
        yield one(f"GATHER version {version}", two, rows, version=version)
    for dtype in DTYPES:
        two = [given(11, 8, dtype=dtype), ints(1, 0, 2, 2)]
        yield one(f"GATHER of {dtype}", two, ((4, 8), dtype))


def _embedding_lookup() -> Iterator[Case]:
    ids = lambda: given(4, dtype="INT32")  # noqa: E731
    rows = ((4, 8), "FLOAT32")
    for form, table in (
        ("FLOAT32", numbers(10, 8)),
        ("FLOAT16", numbers(10, 8, dtype="FLOAT16")),
        ("INT8 of one scale", numbers(10, 8, dtype="INT8", scales=1)),
        ("INT8 of a scale per row", numbers(10, 8, dtype="INT8", scales=10)),
        ("INT8 without a scale", numbers(10, 8, dtype="INT8")),
        ("INT4 of a scale per row", numbers(10, 8, dtype="INT4", scales=10)),
        ("UINT8 of one scale", numbers(10, 8, dtype="UINT8", scales=1)),
    ):
        for version in (1, 3):
            yield one(f"EMBEDDING_LOOKUP {form}, version {version}", [ids(), table], rows, version=version)
    for height, width in ((97, 320), (90, 6), (11, 7)):
        table, spread = _int4_table(height, width)
        made = [
            model(op("EMBEDDING_LOOKUP", [ids(), t], ((4, width), "FLOAT32"), version=4))
            for t in (table, spread)
        ]
        yield Case(f"EMBEDDING_LOOKUP INT4, rows of {width}", made[0], twin=made[1])
    yield one("EMBEDDING_LOOKUP rank 3", [ids(), numbers(10, 5, 8)], ((4, 5, 8), "FLOAT32"))
    yield one("EMBEDDING_LOOKUP runtime table", [ids(), given(10, 8)], rows)
    yield one("EMBEDDING_LOOKUP constant ids", [ints(1, 0, 2, 2), given(10, 8)], rows)


def _int4_table(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return a table of INT4, and the same in INT8: the CPU reads rows of an odd width from wrong places."""
    packed = numbers(height, width, dtype="INT4", scales=height)
    return packed, Tensor("c", (height, width), "INT8", packed.data, packed.quant)


def _cast() -> Iterator[Case]:
    for old in ("FLOAT32", "FLOAT16", "INT32", "INT64", "BOOL", "INT8", "UINT8", "INT16", "UINT32"):
        for new in ("FLOAT32", "FLOAT16", "INT32", "INT64", "BOOL", "INT8"):
            made = op("CAST", [given(5, 8, dtype=old)], ((5, 8), new), in_data_type=old, out_data_type=new)
            yield Case(f"CAST {old} to {new}", model(made))
    for shape in RANKS:
        made = op("CAST", [given(*shape)], (shape, "INT32"), in_data_type="FLOAT32", out_data_type="INT32")
        yield Case(f"CAST rank {len(shape)}", model(made))
    made = op("CAST", [ints(1, 2)], ((2,), "FLOAT32"), in_data_type="INT32", out_data_type="FLOAT32")
    yield Case("CAST of a constant", model(made))


def _select() -> Iterator[Case]:
    for kind in ("SELECT", "SELECT_V2"):
        for shape in RANKS:
            three = [given(*shape, dtype="BOOL"), given(*shape), given(*shape)]
            yield one(f"{kind} rank {len(shape)}", three, (shape, "FLOAT32"))
            three = [given(*shape, dtype="BOOL"), given(*shape), numbers(*shape)]
            yield one(f"{kind} rank {len(shape)} with a constant", three, (shape, "FLOAT32"))
    for cond in [(), (8,), (5, 8), (1, 1, 1, 8), (2, 3, 5, 1)]:
        three = [given(*cond, dtype="BOOL"), given(*SHAPE), given(*SHAPE)]
        yield one(f"SELECT_V2 condition {list(cond)}", three, (SHAPE, "FLOAT32"))
    for other in [(), (1,), (8,), (5, 8), (1, 1, 1, 8), (1, 1, 1, 1)]:
        three = [given(*SHAPE, dtype="BOOL"), given(*SHAPE), numbers(*other)]
        yield one(f"SELECT_V2 else a constant {list(other)}", three, (SHAPE, "FLOAT32"))
        three = [given(*SHAPE, dtype="BOOL"), given(*other), given(*SHAPE)]
        yield one(f"SELECT_V2 then {list(other)}", three, (SHAPE, "FLOAT32"))
    for dtype in ("INT32", "INT64", "BOOL"):
        three = [given(*SHAPE, dtype="BOOL"), given(*SHAPE, dtype=dtype), given(*SHAPE, dtype=dtype)]
        yield one(f"SELECT_V2 of {dtype}", three, (SHAPE, dtype))
    three = [given(*SHAPE, dtype="BOOL"), given(*SHAPE), given(*SHAPE)]
    yield one("SELECT_V2 version 2", three, (SHAPE, "FLOAT32"), version=2)


def _one_hot() -> Iterator[Case]:
    def of(name: str, shape: tuple[int, ...], axis: int = -1, **a: Any) -> Case:
        inputs = [a.get("ids", given(*shape, dtype="INT32")), scalar(7, "INT32")]
        inputs += [a.get("on", scalar(1.0)), a.get("off", scalar(0.0))]
        made = a.get("result", (*shape, 7))
        return one(f"ONE_HOT {name}", inputs, (made, a.get("dtype", "FLOAT32")), axis=axis)

    for shape in [(), (4,), (1, 4), (3, 4), (1, 1, 4), (2, 1, 1, 1), (2, 1, 1, 4)]:
        yield of(f"of {list(shape)}", shape)
    yield of("axis 0", (4,), 0, result=(7, 4))
    yield of("axis 1", (4,), 1)
    yield of("on 5", (4,), on=scalar(5.0), off=scalar(2.0))
    yield of("runtime on", (4,), on=given())
    yield of("of INT32", (4,), on=scalar(1, "INT32"), off=scalar(0, "INT32"), dtype="INT32")
    yield of("INT64 ids", (4,), ids=given(4, dtype="INT64"))


def _dynamic_update_slice() -> Iterator[Case]:
    for shape in RANKS[1:5]:
        part = [n - 4 if n > 4 else 1 for n in shape]
        three = [given(*shape), given(*part), given(len(shape), dtype="INT32")]
        yield one(f"DYNAMIC_UPDATE_SLICE rank {len(shape)}", three, (shape, "FLOAT32"))
    three = [given(5, 8), given(2, 8), ints(1, 0)]
    yield one("DYNAMIC_UPDATE_SLICE constant place", three, ((5, 8), "FLOAT32"))
    three = [given(5, 8), given(2, 8), given(2, dtype="INT64")]
    yield one("DYNAMIC_UPDATE_SLICE INT64 place", three, ((5, 8), "FLOAT32"))
    three = [given(5, 8), numbers(2, 8), given(2, dtype="INT32")]
    yield one("DYNAMIC_UPDATE_SLICE constant update", three, ((5, 8), "FLOAT32"))
    three = [given(5, 8, dtype="INT32"), given(2, 8, dtype="INT32"), given(2, dtype="INT32")]
    yield one("DYNAMIC_UPDATE_SLICE of INT32", three, ((5, 8), "INT32"))


def _other() -> Iterator[Case]:
    flat = ((5, 8), "FLOAT32")
    yield one("BROADCAST_TO", [given(1, 8), ints(5, 8)], flat, version=2)
    yield one("EXPAND_DIMS", [given(5, 8), ints(0)], ((1, 5, 8), "FLOAT32"))
    yield one("SQUEEZE", [given(1, 5, 8)], flat, squeeze_dims=(0,))
    yield one("SHAPE", [given(5, 8)], ((2,), "INT32"), out_type=2)
    yield one("FILL", [ints(5, 8), given()], flat)
    yield one("GATHER_ND", [given(5, 8), ints((0,), (1,))], ((2, 8), "FLOAT32"))
    yield one("SCATTER_ND", [ints((0,), (1,)), given(2, 8), ints(5, 8)], flat)
    yield one("ARG_MIN", [given(5, 8), ints(1)], ((5,), "INT32"), output_type=2)
    yield one("L2_NORMALIZATION", [given(5, 8)], flat)
    yield one("LOG_SOFTMAX", [given(5, 8)], flat)
    yield one("ZEROS_LIKE", [given(5, 8)], flat)
    yield one(
        "SPACE_TO_BATCH_ND", [given(1, 4, 4, 8), ints(2, 2), ints((0, 0), (0, 0))], ((4, 2, 2, 8), "FLOAT32")
    )
    yield one(
        "BATCH_TO_SPACE_ND", [given(4, 2, 2, 8), ints(2, 2), ints((0, 0), (0, 0))], ((1, 4, 4, 8), "FLOAT32")
    )
    yield one("LOCAL_RESPONSE_NORMALIZATION", [given(1, 4, 4, 8)], ((1, 4, 4, 8), "FLOAT32"), radius=2)
    for same, old, new in (("same", "INT32", "FLOAT32"), ("back", "FLOAT32", "INT32")):
        yield one(f"BITCAST {same}", [given(5, 8, dtype=old)], ((5, 8), new))
    yield one("BITCAST of a constant", [numbers(5, 8)], ((5, 8), "INT32"))
    yield one("BITCAST rank 5", [given(*RANKS[5])], (RANKS[5], "INT32"))
    yield one("BITCAST narrower", [given(5, 8, dtype="INT32")], ((5, 8, 2), "INT16"))
    yield one("WHERE", [given(5, 8, dtype="BOOL")], ((40, 2), "INT64"))
    yield one("RANK", [given(5, 8)], ((), "INT32"))
    yield one("REVERSE_SEQUENCE", [given(5, 8), ints(1, 2, 3, 4, 5)], flat, seq_dim=1)
