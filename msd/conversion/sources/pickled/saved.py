"""What torch.save wrote, as tensors and plain values by the keys that lead to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msd.conversion.sources.pickled.machine import BadPickle, PickledCall
from msd.conversion.sources.pickled.tensor import Storage, is_tensor, tensor_of, weights_of
from msd.conversion.sources.stored import StoredFile
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights

Keys = tuple[str | int, ...]
"""The keys of dictionaries, and the places in lists, that lead from the top to a value."""

DICTIONARIES = ("collections OrderedDict", "collections defaultdict")
PARAMETERS = "torch.nn.modules.container ParameterDict"
PLAIN_VALUES = (str, int, float, bool)
DEEPEST = 6
"""The most keys that lead to a tensor of interest."""

MOST_VALUES = 500_000
DICTIONARY = "a dictionary"


@dataclass(frozen=True)
class Saved:
    """The calls of all tensors, and all other plain values, by their keys.

    `kinds` says of the top level, and of what is directly in it, what it is: "a dictionary", "a list".
    """

    file: StoredFile
    storage: Callable[[str], Storage]
    calls: Mapping[Keys, PickledCall]
    values: Mapping[Keys, str | int | float | bool]
    kinds: Mapping[Keys, str]

    def wrong(self, what: str) -> BadCheckpoint:
        """Return the error that reports `what` is wrong with the pickle."""
        return self.file.wrong(f"of its data.pkl, {what}")

    def weights(self, keys: Keys) -> Weights:
        """Return one tensor; raises BadCheckpoint for a damaged description."""
        name = ".".join(map(str, keys[-1:])) or "its tensor"
        try:
            tensor = tensor_of(name, self.calls[keys])
        except BadPickle as error:
            raise self.wrong(str(error)) from error
        return weights_of(self.file, tensor, self.storage(tensor.key))

    def below(self, keys: Keys) -> dict[str, Keys]:
        """Return the keys of the tensors in the dictionary that `keys` lead to, by their names in it."""
        return {
            str(each[-1]): each
            for each in self.calls
            if each[:-1] == keys and each and isinstance(each[-1], str)
        }


def flattened(file: StoredFile, storage: Callable[[str], Storage], root: Any) -> Saved:
    """Return the tensors and values in a pickle's description; each container is visited once."""
    calls: dict[Keys, PickledCall] = {}
    values: dict[Keys, str | int | float | bool] = {}
    kinds: dict[Keys, str] = {}
    seen = set[int]()
    waiting: list[tuple[Keys, Any]] = [((), root)]
    while waiting:
        keys, value = waiting.pop()
        if len(keys) <= 1:
            kinds[keys] = _kind(value)
        if is_tensor(value):
            calls[keys] = value
        elif isinstance(value, PLAIN_VALUES):
            values[keys] = value
        elif id(value) not in seen and len(keys) < DEEPEST:
            seen.add(id(value))
            waiting += [((*keys, key), each) for key, each in _members(value)][::-1]
        if len(waiting) + len(values) > MOST_VALUES:
            raise file.wrong(f"it has more than {MOST_VALUES} values")
    return Saved(file=file, storage=storage, calls=calls, values=values, kinds=kinds)


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the members of a dictionary, a list or a tuple with their keys."""
    if isinstance(value, list | tuple):
        yield from enumerate(value)
    else:
        yield from ((key, each) for key, each in _items(value).items() if isinstance(key, str | int))


def _items(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, PickledCall) and value.function.name in DICTIONARIES:
        return value.items
    if isinstance(value, PickledCall) and value.function.name == PARAMETERS and isinstance(value.state, dict):
        return _items(value.state.get("_parameters"))
    return {}


def _kind(value: Any) -> str:
    """Return what a description's top level is, in a word or two."""
    if is_tensor(value):
        return "a tensor"
    if isinstance(value, dict) or (
        isinstance(value, PickledCall) and value.function.name in (*DICTIONARIES, PARAMETERS)
    ):
        return DICTIONARY
    if isinstance(value, PickledCall):
        return f"a {value.function.name.rpartition(' ')[2]}"
    return f"a {type(value).__name__}"
