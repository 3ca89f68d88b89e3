"""Traces a Keras model to a TFLite flatbuffer without its weights.

Keras builds the model inside a `StatelessScope` that never initialises a variable. The trace replaces every
variable by a placeholder, and TensorFlow's converter turns the graph into a flatbuffer whose weights are
graph inputs. No array of the size of a weight is ever allocated.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msd.errors import BadConfig
from msd.files.packages import load_triton, require_packages
from msd.files.silence import without_lines
from msd.models.structure import Structure, VariableSpec

KERAS_SETTINGS = ("tensorflow", "channels_last", "float32")
"""The required backend, image data format and float type."""

TRACERS = "tensorflow", "keras"
STARTUP_LINE = re.compile(
    rb"I\d{4} |WARNING: All log messages before absl|To enable the following instructions"
)

InputSpecs = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and dtype of each input by its name."""


def trace(build: Callable[[], Any], inputs: InputSpecs) -> Structure:
    """Return the structure of the Keras model, or callable, that `build` returns, for static `inputs`.

    A functional model gets each tensor by the name of its input; any other is called with one tensor, or
    with several as keyword arguments. No variable is allocated, neither here nor later by Keras itself. The
    same model gives the same bytes. Raises BadConfig if Keras is configured for another backend, data format
    or precision.
    """
    with unallocated() as variables:
        model = build()
        _ensure_built(model, inputs)
        return _structure(model, variables, inputs)


def _structure(model: Any, variables: list[Any], inputs: InputSpecs) -> Structure:
    """Return the structure of `model` called with placeholders for `inputs` and `variables`."""
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
    """Return the model's outputs by name, where `values` are the values of `variables`."""
    import keras

    count = len(variables)
    with keras.StatelessScope(list(zip(variables, values, strict=True)), initialize_variables=False):
        outputs = _apply(model, arguments)
    if len(variables) != count:
        raise ValueError(f"the model creates {variables[-1].path} only when it is called")
    if isinstance(outputs, Mapping):
        return dict(outputs)
    return {f"output_{i}": tensor for i, tensor in enumerate(keras.tree.flatten(outputs))}


def _apply(model: Any, arguments: dict[str, Any]) -> Any:
    """Return the outputs of `model` for the tensors in `arguments`."""
    import keras
    from keras.src.models.functional import Functional

    only = next(iter(arguments.values())) if len(arguments) == 1 else None

    def by_name(symbol: Any) -> Any:
        return arguments[symbol.name] if only is None else only

    if isinstance(model, Functional):
        return model(keras.tree.map_structure(by_name, model.input))
    return model(**arguments) if only is None else model(only)


def _ensure_built(model: Any, inputs: InputSpecs) -> None:
    """Make every layer create its variables, which some do only when called."""
    import keras
    from keras.src import backend

    if isinstance(model, keras.Model) and model.built:
        return
    symbols = {name: keras.KerasTensor(shape, dtype) for name, (shape, dtype) in inputs.items()}
    backend.compute_output_spec(lambda **arguments: _apply(model, arguments), **symbols)


def _import_quietly() -> None:
    """Import Keras with TensorFlow without their messages; refuse settings that change the graph."""
    require_packages("the trace of a network whose structure does not ship with msd", "trace", *TRACERS)
    if "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
        load_triton()
        with without_lines(STARTUP_LINE):
            import tensorflow  # noqa: F401
            from tensorflow.lite.python import convert  # noqa: F401
    import keras

    settings = (keras.backend.backend(), keras.config.image_data_format(), keras.config.floatx())
    if settings != KERAS_SETTINGS:
        raise BadConfig(f"Keras is set to {settings} in ~/.keras/keras.json, and {KERAS_SETTINGS} is needed")


@contextlib.contextmanager
def unallocated() -> Iterator[list[Any]]:
    """Yield a list that collects the Keras variables created within, which are never allocated.

    Keras would otherwise allocate them all when any later stateless scope closes. Automatic names restart, so
    that they do not depend on models built before.
    """
    _import_quietly()
    import keras
    from keras.src.backend.common import global_state

    variables: list[Any] = []
    within = {"uninitialized_variables": variables, "object_name_uids": None}
    outside = {name: global_state.get_global_attribute(name) for name in within}
    for name, value in within.items():
        global_state.set_global_attribute(name, value)
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield variables
    finally:
        for name, value in outside.items():
            global_state.set_global_attribute(name, value)
