"""The structure of a Keras model as a TFLite flatbuffer, without a single one of its weights.

Keras builds the model inside a `StatelessScope` that never initialises a variable; the call is traced with every
variable replaced by a function argument; TensorFlow's converter turns that graph into a flatbuffer whose weights
are graph inputs. Nothing of the size of a weight exists at any moment.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

InputSpecs = Mapping[str, tuple[tuple[int, ...], str]]
"""Shape and dtype of each input, by its name."""


@dataclass(frozen=True)
class VariableSpec:
    """A Keras variable: `path` is "layer/…/variable", unique in its model; `shape` is Keras's."""

    path: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """A model without weights.

    `flatbuffer` is a TFLite model whose subgraph has as inputs the tensors named in `inputs`, then those named
    in `variables`, which says the variable that each one stands for; `outputs` are named as the Keras model
    names them, or "output_0", ….
    """

    flatbuffer: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variables: dict[str, VariableSpec]


def trace(build: Callable[[], Any], inputs: InputSpecs) -> Structure:
    """Return the structure of the Keras model, or callable, that `build` makes, for static `inputs`.

    The model is called with one tensor if there is one input, else with a dict of tensors by input name. No
    variable is allocated, neither here nor later by Keras itself.
    """
    with _quiet():
        import keras

        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(f"tracing needs Keras on TensorFlow, not on {keras.backend.backend()}")
        with _unallocated() as variables:
            model = build()
            _ensure_built(model, inputs)
            return _structure(model, variables, inputs)


def _structure(model: Any, variables: list[Any], inputs: InputSpecs) -> Structure:
    """Return the structure of `model`, called on placeholders that stand for `inputs` and `variables`."""
    import tensorflow as tf
    from tensorflow.lite.python import convert

    with tf.Graph().as_default() as graph:
        arguments = {name: _placeholder(dtype, shape, name) for name, (shape, dtype) in inputs.items()}
        values = [_placeholder(v.dtype, v.shape, f"variable_{i}") for i, v in enumerate(variables)]
        outputs = _call(model, arguments, variables, values)
        results = [tf.identity(tensor, name) for name, tensor in outputs.items()]
    ordered = [*arguments.values(), *values]
    return Structure(
        convert.convert_graphdef(graph.as_graph_def(), input_tensors=ordered, output_tensors=results),
        inputs=tuple(t.op.name for t in arguments.values()),
        outputs=tuple(t.op.name for t in results),
        variables={
            t.op.name: VariableSpec(v.path, tuple(v.shape)) for t, v in zip(values, variables, strict=True)
        },
    )


def _placeholder(dtype: str, shape: Sequence[int], name: str) -> Any:
    import tensorflow as tf

    return tf.compat.v1.placeholder(dtype, shape, name)


def _call(model: Any, arguments: dict[str, Any], variables: list[Any], values: list[Any]) -> dict[str, Any]:
    """Return the model's outputs by name, where each of `variables` has its place in `values` as its value."""
    import keras

    count = len(variables)
    with keras.StatelessScope(list(zip(variables, values, strict=True)), initialize_variables=False):
        outputs = _named(model(_arguments(arguments)))
    if len(variables) != count:
        raise RuntimeError(f"{variables[-1].path} was made while the model was called, not before")
    return outputs


def _arguments(arguments: dict[str, Any]) -> Any:
    return next(iter(arguments.values())) if len(arguments) == 1 else arguments


def _named(outputs: Any) -> dict[str, Any]:
    """Return the tensors of a structure of outputs by name, or by place where they have none."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    listed = outputs if isinstance(outputs, list | tuple) else [outputs]
    return {f"output_{i}": tensor for i, tensor in enumerate(listed)}


def _ensure_built(model: Any, inputs: InputSpecs) -> None:
    """Have every layer make its variables, which some only do when called."""
    import keras

    if isinstance(model, keras.Model) and model.built:
        return
    symbols = {name: keras.KerasTensor(shape, dtype) for name, (shape, dtype) in inputs.items()}
    keras.backend.compute_output_spec(model, _arguments(symbols))


@contextlib.contextmanager
def _unallocated() -> Iterator[list[Any]]:
    """Within, Keras variables are only listed, in the list given; afterwards Keras has forgotten them.

    Keras would otherwise allocate them all when any later stateless scope closes.
    """
    import keras
    from keras.src.backend.common import global_state

    outer = global_state.get_global_attribute("uninitialized_variables")
    variables: list[Any] = []
    global_state.set_global_attribute("uninitialized_variables", variables)
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield variables
    finally:
        global_state.set_global_attribute("uninitialized_variables", outer)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    yield
