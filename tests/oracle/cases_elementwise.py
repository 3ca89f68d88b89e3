"""Cases of operations that work element by element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.case import Case, given, ints, model, numbers, op, scalar

SHAPE = (2, 3, 5, 8)
RANKS: list[tuple[int, ...]] = [(), (8,), (5, 8), (3, 5, 8), SHAPE, (1, 2, 3, 5, 8)]

UNARY = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "LOGISTIC", "NEG", "RELU"),
    *("RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "LEAKY_RELU", "ROUND", "RSQRT", "SIGN", "SIN", "SOFTMAX"),
    *("SQRT", "SQUARE", "TANH"),
)
NEWER = {
    **{"RELU": 3, "RELU6": 3, "TANH": 3, "LOGISTIC": 3, "RSQRT": 3, "GELU": 3, "SOFTMAX": 4, "ABS": 5},
    **dict.fromkeys(["EXP", "LOG", "SIN", "COS", "SQRT", "LEAKY_RELU", "SIGN"], 2),
}
"""The newest version of an operation that the runtime knows, where that is not 1."""

BINARY = (
    *("ADD", "ATAN2", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "MUL", "POW"),
    *("SQUARED_DIFFERENCE", "SUB"),
)
COMPARE = ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
LOGICAL = ("LOGICAL_AND", "LOGICAL_OR")
NEWER_BINARY = {
    **{"ADD": 6, "MUL": 8, "SUB": 5, "DIV": 2, "MAXIMUM": 4, "MINIMUM": 4, "FLOOR_DIV": 3, "FLOOR_MOD": 2},
    **{"SQUARED_DIFFERENCE": 2, "EQUAL": 5, "NOT_EQUAL": 4, "GREATER": 2, "GREATER_EQUAL": 3, "LESS": 3},
    **{"LESS_EQUAL": 2},
}
BROADCASTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1, 3, 5, 8), (1, 3, 5, 8)),
    ((2, 3, 5, 8), (1, 1, 1, 8)),
    ((2, 3, 5, 8), (2, 1, 1, 8)),
    ((2, 3, 5, 8), (1, 1, 5, 1)),
    ((2, 3, 5, 8), (1, 3, 1, 1)),
    ((2, 3, 5, 8), (2, 1, 1, 1)),
    ((2, 3, 5, 8), (1, 1, 1, 1)),
    ((2, 1, 1, 8), (1, 3, 5, 1)),
    ((1, 3, 5, 8), (3, 5, 8)),
    ((2, 3, 5, 8), (3, 5, 8)),
    ((2, 3, 5, 8), (1, 5, 8)),
    ((2, 3, 5, 8), (5, 8)),
    ((2, 3, 5, 8), (1, 8)),
    ((2, 3, 5, 8), (1, 1)),
    ((1, 1, 5, 8), (5, 8)),
    ((2, 3, 5, 8), (8,)),
    ((2, 3, 5, 8), (1,)),
    ((5, 5, 5, 5), (5,)),
    ((5, 5, 5, 5), (5, 5)),
    ((3, 5, 8), (5, 8)),
    ((1, 5, 8), (5, 8)),
    ((3, 5, 8), (1, 8)),
    ((3, 5, 8), (8,)),
    ((3, 5, 8), (3, 1, 8)),
    ((5, 8), (8,)),
    ((5, 8), (1, 8)),
    ((5, 8), (5, 1)),
    ((4, 4), (4,)),
    ((8,), (1,)),
]
SAME_RANK: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((8,), (8,)),
    ((5, 8), (5, 8)),
    ((3, 5, 8), (3, 5, 8)),
    ((3, 5, 8), (1, 5, 8)),
    ((3, 5, 8), (1, 1, 8)),
    ((3, 5, 8), (3, 1, 1)),
    ((1, 5, 8), (1, 5, 8)),
    ((1, 8), (1, 8)),
]


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    for kind in UNARY:
        yield from _unary(kind)
    for kind in BINARY:
        yield from _binary(kind)
    for kind in COMPARE:
        yield from _compare(kind)
    yield from _logical()
    yield from _broadcasts()
    yield from _integers()
    yield from _add_n()
    yield from _prelu()


def _unary(kind: str) -> Iterator[Case]:
    attrs = {"SOFTMAX": {"beta": 1.0}, "LEAKY_RELU": {"alpha": 0.1}}.get(kind, {})
    positive = kind in ("LOG", "SQRT", "RSQRT")
    for shape in RANKS:
        made = op(kind, [given(*shape)], (shape, "FLOAT32"), **attrs)
        yield Case(f"{kind} rank {len(shape)}", model(made), positive)
    for version in range(2, NEWER.get(kind, 1) + 1):
        made = op(kind, [given(*SHAPE)], (SHAPE, "FLOAT32"), version=version, **attrs)
        yield Case(f"{kind} version {version}", model(made), positive)
    made = op(kind, [numbers(*SHAPE)], (SHAPE, "FLOAT32"), **attrs)
    yield Case(f"{kind} of a constant", model(made), positive)
    if kind == "SOFTMAX":
        yield Case("SOFTMAX beta 2", model(op(kind, [given(*SHAPE)], (SHAPE, "FLOAT32"), beta=2.0)))
    if kind == "GELU":
        made = op(kind, [given(*SHAPE)], (SHAPE, "FLOAT32"), approximate=True)
        yield Case("GELU approximate", model(made))


def _binary(kind: str) -> Iterator[Case]:
    def of(name: str, *inputs: object, version: int = 1, shape: tuple[int, ...] = SHAPE, **a: object) -> Case:
        made = op(kind, inputs, (shape, "FLOAT32"), version=version, **a)  # type: ignore[arg-type]
        return Case(f"{kind} {name}", model(made), positive=True)

    for shape in RANKS[1:]:
        yield of(f"rank {len(shape)}", given(*shape), given(*shape), shape=shape)
    yield of("with a scalar", given(*SHAPE), given())
    same = given(*SHAPE)
    yield of("of one tensor twice", same, same)
    yield of("of two constants", numbers(*SHAPE), numbers(*SHAPE))
    lower = [(), (1,), (8,), (5, 8), (3, 5, 8), (1, 3, 5, 8), (1, 1, 1, 8), (1, 1, 1, 1)]
    for shape in [SHAPE, *lower] if kind != "ATAN2" else [SHAPE]:
        yield of(f"with a constant of {list(shape)}", given(*SHAPE), numbers(*shape))
        yield of(f"from a constant of {list(shape)}", numbers(*shape), given(*SHAPE))
    big = (1, *SHAPE)
    yield of("with a constant of rank 5", given(*SHAPE), numbers(*big), shape=big)
    for version in range(2, NEWER_BINARY.get(kind, 1) + 1):
        yield of(f"version {version}", given(*SHAPE), given(*SHAPE), version=version)
    if kind in ("ADD", "SUB", "MUL", "DIV"):
        for activation in ("RELU", "RELU6", "RELU_N1_TO_1", "SIGN_BIT"):
            two = given(*SHAPE), given(*SHAPE)
            yield of(f"then {activation}", *two, fused_activation_function=activation)
        fused = of("then TANH", given(*SHAPE), given(*SHAPE), fused_activation_function="TANH")
        plain = op(kind, [given(*SHAPE), given(*SHAPE)], (SHAPE, "FLOAT32"))
        twin = model(plain, op("TANH", plain.outputs, (SHAPE, "FLOAT32")))
        yield replace(fused, twin=twin)


def _compare(kind: str) -> Iterator[Case]:
    for shape in RANKS[1:]:
        made = op(kind, [given(*shape), given(*shape)], (shape, "BOOL"))
        yield Case(f"{kind} rank {len(shape)}", model(made))
    made = op(kind, [given(*SHAPE), scalar(0.5)], (SHAPE, "BOOL"))
    yield Case(f"{kind} with a constant", model(made))
    for version in range(2, NEWER_BINARY.get(kind, 1) + 1):
        made = op(kind, [given(*SHAPE), given(*SHAPE)], (SHAPE, "BOOL"), version=version)
        yield Case(f"{kind} version {version}", model(made))
    for dtype in ("INT32", "INT64"):
        made = op(kind, [given(*SHAPE, dtype=dtype), given(*SHAPE, dtype=dtype)], (SHAPE, "BOOL"))
        yield Case(f"{kind} of {dtype}", model(made))
    made = op(kind, [given(*SHAPE), given(*SHAPE)], (SHAPE, "BOOL"))
    cast = op("CAST", [made.outputs[0]], (SHAPE, "FLOAT32"), in_data_type="BOOL", out_data_type="FLOAT32")
    yield Case(f"{kind} then CAST", model(made, cast))
    same = given(*SHAPE)
    yield Case(f"{kind} of one tensor twice", model(op(kind, [same, same], (SHAPE, "BOOL"))))


def _logical() -> Iterator[Case]:
    for kind in LOGICAL:
        for shape in RANKS[1:]:
            made = op(kind, [given(*shape, dtype="BOOL"), given(*shape, dtype="BOOL")], (shape, "BOOL"))
            yield Case(f"{kind} rank {len(shape)}", model(made))
        made = op(kind, [given(*SHAPE, dtype="BOOL"), scalar(True, "BOOL")], (SHAPE, "BOOL"))
        yield Case(f"{kind} with a constant", model(made))
    for shape in RANKS:
        made = op("LOGICAL_NOT", [given(*shape, dtype="BOOL")], (shape, "BOOL"))
        yield Case(f"LOGICAL_NOT rank {len(shape)}", model(made))
    for dtype in ("INT32", "INT16", "INT8", "UINT32"):
        made = op("BITWISE_XOR", [given(*SHAPE, dtype=dtype), given(*SHAPE, dtype=dtype)], (SHAPE, dtype))
        yield Case(f"BITWISE_XOR of {dtype}", model(made))


def _broadcasts() -> Iterator[Case]:
    for kind in ("ADD", "MUL", "SUB", "DIV", "MAXIMUM", "SQUARED_DIFFERENCE", "LESS"):
        result = "BOOL" if kind == "LESS" else "FLOAT32"
        for long, short in BROADCASTS:
            shape = _broadcast(long, short)
            made = op(kind, [given(*long), given(*short)], (shape, result))
            yield Case(f"{kind} {list(long)} with {list(short)}", model(made), positive=True)
            if long != short and kind in ("ADD", "SUB"):
                made = op(kind, [given(*short), given(*long)], (shape, result))
                yield Case(f"{kind} {list(short)} with {list(long)}", model(made), positive=True)
    for kind in ("ADD", "SUB", "MUL"):
        for long, short in [*BROADCASTS, *SAME_RANK]:
            shape = _broadcast(long, short)
            made = op(kind, [given(*long), numbers(*short)], (shape, "FLOAT32"))
            yield Case(f"{kind} {list(long)} with a constant {list(short)}", model(made))
            if kind != "MUL":
                made = op(kind, [numbers(*long), given(*short)], (shape, "FLOAT32"))
                yield Case(f"{kind} a constant {list(long)} with {list(short)}", model(made))


def _broadcast(long: tuple[int, ...], short: tuple[int, ...]) -> tuple[int, ...]:
    padded = (1,) * (len(long) - len(short)) + short
    return tuple(map(max, long, padded))


def _integers() -> Iterator[Case]:
    for kind in ("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "POW"):
        for dtype in ("INT32", "INT64", "INT16"):
            two = [given(*SHAPE, dtype=dtype), given(*SHAPE, dtype=dtype)]
            yield Case(f"{kind} of {dtype}", model(op(kind, two, (SHAPE, dtype))), positive=True)
        made = op(kind, [given(*SHAPE, dtype="INT32"), ints(3)], (SHAPE, "INT32"))
        yield Case(f"{kind} of INT32 with a constant", model(made), positive=True)
    for kind in ("ABS", "NEG", "SIGN", "SQUARE", "RELU"):
        for dtype in ("INT32", "INT64"):
            yield Case(f"{kind} of {dtype}", model(op(kind, [given(*SHAPE, dtype=dtype)], (SHAPE, dtype))))
    for kind in ("RIGHT_SHIFT", "STABLEHLO_SHIFT_LEFT"):
        for shape in RANKS[1:]:
            two = [given(*shape, dtype="INT32"), given(*shape, dtype="INT32")]
            yield Case(f"{kind} rank {len(shape)}", model(op(kind, two, (shape, "INT32"))), positive=True)
        same = given(*SHAPE, dtype="INT32")
        yield Case(
            f"{kind} of one tensor twice", model(op(kind, [same, same], (SHAPE, "INT32"))), positive=True
        )
    for dtype in ("INT32", "INT16", "INT8", "UINT8"):
        two = [given(*SHAPE, dtype=dtype), given(*SHAPE, dtype=dtype)]
        yield Case(f"RIGHT_SHIFT of {dtype}", model(op("RIGHT_SHIFT", two, (SHAPE, dtype))), positive=True)
    for kind, scales in (("ADD", 1), ("MUL", 1), ("ADD", 0), ("SUB", 1), ("MAXIMUM", 1)):
        weight = numbers(1, 1, 1, 8, dtype="INT8", scales=scales)
        made = op(kind, [given(*SHAPE), weight], (SHAPE, "FLOAT32"))
        yield Case(f"{kind} with an INT8 constant of {scales} scales", model(made))
        half = numbers(1, 1, 1, 8, dtype="FLOAT16")
        made = op(kind, [given(*SHAPE), half], (SHAPE, "FLOAT32"))
        yield Case(f"{kind} with a FLOAT16 constant, {scales}", model(made))
    for kind in ("ADD", "MUL", "SUB"):
        parts = [given(*SHAPE, dtype="INT8", scale=0.02), given(*SHAPE, dtype="INT8", scale=0.03)]
        made = op(kind, parts, _quantised(SHAPE, 0.05), version=2)
        yield Case(f"{kind} of quantised INT8", model(made))


def _quantised(shape: tuple[int, ...], scale: float) -> object:
    return given(*shape, dtype="INT8", scale=scale)


def _add_n() -> Iterator[Case]:
    for count in (1, 2, 3):
        made = op("ADD_N", [given(*SHAPE) for _ in range(count)], (SHAPE, "FLOAT32"))
        yield Case(f"ADD_N of {count}", model(made))


def _prelu() -> Iterator[Case]:
    for alpha in [(8,), (1, 1, 8), (3, 5, 8), (1, 1, 1, 8), (1,), (4,)]:
        shape = (1, 3, 5, 8)
        if alpha == (4,):
            continue
        made = op("PRELU", [given(*shape), numbers(*alpha)], (shape, "FLOAT32"))
        yield Case(f"PRELU alpha {list(alpha)}", model(made))
    made = op("PRELU", [given(3, 5, 8), numbers(1, 1, 8)], ((3, 5, 8), "FLOAT32"))
    yield Case("PRELU of rank 3", model(made))
    made = op("PRELU", [given(1, 3, 5, 8), given(1, 1, 8)], ((1, 3, 5, 8), "FLOAT32"))
    yield Case("PRELU runtime alpha", model(made))
