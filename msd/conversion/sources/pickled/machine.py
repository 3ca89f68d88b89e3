"""Parses a pickle into a description, with a machine for its opcodes that never calls or imports anything.

A global becomes its name, and a call a `PickledCall` that records the function and its arguments. Only
names in `KNOWN` are allowed. The opcodes are those of the module pickletools; the machine refuses those that
torch.save never writes.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msd.files.wording import counted

MOST_OPCODES = 2_000_000
"""Some thirty times as many as Stable Diffusion with EMA weights has."""

BIGGEST_INTEGER = 1 << 63
KEYS = (str, int, float, bool, type(None))
"""Types that may be keys of a dictionary: their hash takes constant time."""

KNOWN = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state",
    "torch._tensor _rebuild_from_type_v2",
    "torch Tensor",
    "torch.nn.parameter Parameter",
    "torch.storage UntypedStorage",
    "torch DoubleStorage",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch LongStorage",
    "torch IntStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch ByteStorage",
    "torch BoolStorage",
    "torch Size",
    "torch device",
    *(
        f"torch {name}"
        for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8")
    ),
    *(f"torch {name}" for name in ("uint8", "uint16", "uint32", "uint64", "bool")),
    *(f"torch float8_{name}" for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")),
    "collections defaultdict",
    "argparse Namespace",
    "pathlib PosixPath",
    "pathlib WindowsPath",
    "torch.torch_version TorchVersion",
    "_codecs encode",
    "builtins set",
    "__builtin__ set",
    *(
        f"{package}.{module} {name}"
        for package in ("numpy.core", "numpy._core")
        for module, name in (("multiarray", "scalar"), ("multiarray", "_reconstruct"))
    ),
    "numpy dtype",
    "numpy ndarray",
    "torch.nn.modules.container ParameterDict",
    *(
        f"{package}.callbacks.{name}"
        for package in ("pytorch_lightning", "lightning.pytorch")
        for name in ("model_checkpoint ModelCheckpoint", "early_stopping EarlyStopping")
    ),
}
"""The globals in checkpoints of Stable Diffusion; the parser keeps only their names."""


class BadPickle(Exception):
    """A pickle contains something that no checkpoint contains; the message names it."""


@dataclass(frozen=True, eq=False)
class Global:
    """The name of a class or function: module, space, name."""

    name: str


@dataclass(frozen=True, eq=False)
class Persistent:
    """An object that torch stores outside the pickle, by its `id`."""

    id: Any


@dataclass(eq=False)
class PickledCall:
    """A call of `function` with `arguments`, which is never executed."""

    function: Global
    arguments: tuple[Any, ...]
    items: dict[Any, Any] = field(default_factory=dict)
    """The items that the pickle adds to the result, by key."""

    state: Any = None
    """The state that the pickle gives the result."""


@dataclass(frozen=True)
class Described:
    """A pickle's `value`, the ids of all `persistent` objects in it, and how many bytes it takes."""

    value: Any
    persistent: tuple[Any, ...]
    size: int


def describe(pickle: bytes) -> Described:
    """Return a pickle's description, made of `PickledCall`, `Global`, `Persistent` and Python's plain values.

    What follows the pickle is not read. Raises BadPickle for a global that is not known, an opcode that is
    not supported, or a damaged pickle.
    """
    machine, size = _Machine(), 0
    try:
        for count, (opcode, argument, position) in enumerate(pickletools.genops(pickle)):
            if count > MOST_OPCODES:
                raise BadPickle(f"it has more than {MOST_OPCODES} opcodes")
            machine.step(opcode.name, argument)
            size = (position or 0) + 1
    except ValueError as error:
        raise BadPickle(f"it is damaged ({error})") from error
    return Described(machine.result(), tuple(machine.ids), size)


class _Machine:
    """The state of the pickle machine: a stack, a memo, and the stacks below marks."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.ids: list[Any] = []

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in VALUES:
            if isinstance(argument, int) and abs(argument) > BIGGEST_INTEGER:
                raise BadPickle("it has an integer of more than 64 bits")
            self.stack.append(argument)
        elif opcode in FIXED:
            self.stack.append(FIXED[opcode]())
        elif opcode in TUPLES:
            items = [self.pop() for _ in range(TUPLES[opcode])]
            self.stack.append(tuple(reversed(items)))
        elif opcode in ACTIONS:
            ACTIONS[opcode](self, argument)
        elif opcode not in IGNORED:
            raise BadPickle(f"it uses {opcode}, which no checkpoint needs")

    def result(self) -> Any:
        if len(self.stack) != 1 or self.below:
            raise BadPickle(
                f"it ends with {counted(len(self.stack), 'value')} and {counted(len(self.below), 'mark')},"
                " not one value"
            )
        return self.stack[0]

    def pop(self) -> Any:
        if not self.stack:
            raise BadPickle("it takes a value where there is none")
        return self.stack.pop()

    def top(self, kind: type[Any] | tuple[type[Any], ...]) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise BadPickle("it adds to a value that cannot be added to")
        return self.stack[-1]

    def mark(self, _: Any) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        if not self.below:
            raise BadPickle("it looks for a mark where there is none")
        items, self.stack = self.stack, self.below.pop()
        return items

    def tuple(self, _: Any) -> None:
        items = self.since_mark()
        self.stack.append(tuple(items))

    def append(self, _: Any) -> None:
        value = self.pop()
        self.top(list).append(value)

    def appends(self, _: Any) -> None:
        values = self.since_mark()
        self.top(list).extend(values)

    def set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.put([key, value])

    def set_items(self, _: Any) -> None:
        self.put(self.since_mark())

    def put(self, pairs: list[Any]) -> None:
        """Add `pairs`, alternating keys and values, to the dictionary on the stack."""
        into = self.top((dict, PickledCall))
        items = into.items if isinstance(into, PickledCall) else into
        if len(pairs) % 2:
            raise BadPickle("it has a key without a value")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, (*KEYS, Global)):
                raise BadPickle(f"it has a key that is a {type(key).__name__}")
            items[key] = value

    def remember(self, argument: Any) -> None:
        if not self.stack:
            raise BadPickle("it remembers a value where there is none")
        self.memo[len(self.memo) if argument is None else argument] = self.stack[-1]

    def recall(self, argument: Any) -> None:
        if argument not in self.memo:
            raise BadPickle(f"it recalls value {argument}, which it never remembered")
        self.stack.append(self.memo[argument])

    def name(self, argument: Any) -> None:
        self.stack.append(_known(argument))

    def stacked_name(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise BadPickle("it names a global by a value that is not text")
        self.stack.append(_known(f"{module} {name}"))

    def persistent(self, _: Any) -> None:
        id = self.pop()
        if isinstance(id, tuple) and id[:1] == ("module",):
            self.stack.append(_class_of(id))
        else:
            self.ids.append(id)
            self.stack.append(Persistent(id))

    def call(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise BadPickle("it calls a value that is not a function, or without a tuple of arguments")
        self.stack.append(PickledCall(function, arguments))

    def build(self, _: Any) -> None:
        state = self.pop()
        self.top(PickledCall).state = state


def _class_of(id: tuple[Any, ...]) -> Global:
    """Return the class that the format from before torch 1.6 keeps with its source text."""
    if len(id) < 2 or not isinstance(id[1], Global):
        raise BadPickle("it has a module without a class")
    return id[1]


def _known(name: str) -> Global:
    if name not in KNOWN:
        raise BadPickle(
            f"it names {name.replace(' ', '.', 1)!r}, which no checkpoint needs; it is not executed"
        )
    return Global(name)


VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
}  # fmt: skip
FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
IGNORED = {"PROTO", "FRAME", "STOP"}
ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "TUPLE": _Machine.tuple,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "MEMOIZE": _Machine.remember,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": _Machine.stacked_name,
    "BINPERSID": _Machine.persistent,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.call,
    "BUILD": _Machine.build,
}
