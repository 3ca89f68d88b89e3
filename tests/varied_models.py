"""Small .tflite files by TensorFlow's converter, one for each thing that a file may hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from tests import edited_models, tiny_models
from tests.on_cpu import normal
from tests.tiny_models import SHAPE, convert


@cache
def model(name: str) -> bytes:
    """Return the file called `name`."""
    return MODELS[name]()


def condition() -> bytes:
    """IF with two branches: three subgraphs."""
    import tensorflow as tf

    def function(x: Any) -> Any:
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x), lambda: x * 3.0)}

    return convert(function, (SHAPE, "float32"))


def many_results() -> bytes:
    """SPLIT, UNPACK and TOPK_V2, and results that nobody uses."""
    import tensorflow as tf

    def function(x: Any) -> Any:
        a, _, b = tf.split(x, 3, axis=2)
        rows = tf.unstack(a, axis=1)
        values, indices = tf.math.top_k(b, k=2)
        return {"a": rows[0] + rows[2], "values": values, "indices": indices}

    return convert(function, ((2, 3, 6), "float32"))


def _lstm(representative: bool) -> bytes:
    """One fused LSTM: variable tensors, and in int8 intermediates that no operator makes."""
    import tensorflow as tf

    kernel, recurrent, bias = normal(4, 20), normal(5, 20, seed=1), normal(20, seed=2)

    def standard_lstm(x: Any, h: Any, c: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        hidden = []
        for step in tf.unstack(x, axis=1):
            i, f, g, o = tf.split(step @ kernel + h @ recurrent + bias, 4, axis=1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            hidden.append(h)
        return h, tf.stack(hidden, 1), h, c, tf.constant(1.0)

    attributes = {
        "api_implements": "lstm_0",
        "api_preferred_device": "CPU",
        "time_major": False,
        "go_backwards": False,
    }
    fused = tf.function(standard_lstm, experimental_attributes=attributes, autograph=False)

    def function(x: Any) -> Any:
        zero = tf.zeros((1, 5))
        return {"y": fused(x, zero, zero, tf.constant(kernel), tf.constant(recurrent), tf.constant(bias))[1]}

    return _converted(function, [((1, 7, 4), "float32")], integers=representative)


def _converted(function: Callable[..., Any], specs: list[Any], **settings: Any) -> bytes:
    """Convert with what `tiny_models.convert` has no word for."""
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec(s, d, name=f"x{i}") for i, (s, d) in enumerate(specs)])
        def call(self, *inputs: Any) -> Any:
            return function(*inputs)

    module = Module()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.call.get_concrete_function()], module)
    if settings.pop("integers", False):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: _samples(specs)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    if settings.pop("flex", False):
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    for name, value in settings.items():
        setattr(converter, name, value)
    return bytes(converter.convert())


def _samples(specs: list[Any]) -> Iterator[list[Any]]:
    for seed in range(3):
        yield [normal(*shape, seed=seed) for shape, _ in specs]


def integers() -> bytes:
    """Everything in int8: QUANTIZE, CONV_2D with a scale per channel, ADD, DEQUANTIZE."""
    import tensorflow as tf

    kernel, bias = normal(3, 3, 4, 8), normal(8)
    return _converted(
        lambda x: {"y": tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") + bias) + 0.5},
        [(SHAPE, "float32")],
        integers=True,
    )


def saved(module: Any, **signatures: Any) -> bytes:
    """Convert a module through a saved model: what initialises it goes along."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(signatures))
        converter.experimental_enable_resource_variables = True
        converter.allow_custom_ops = True
        return bytes(converter.convert())


def two_signatures() -> bytes:
    """Two subgraphs that share a filter, each with a signature of its own."""
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.kernel = tf.constant(normal(3, 3, 4, 8))

        @tf.function(input_signature=[tf.TensorSpec(SHAPE, "float32", "x")])
        def narrow(self, x: Any) -> Any:
            return {"y": tf.nn.conv2d(x, self.kernel, 1, "SAME")}

        @tf.function(
            input_signature=[tf.TensorSpec((1, 5, 6, 4), "float32", "x"), tf.TensorSpec((), "float32", "t")]
        )
        def wide(self, x: Any, t: Any) -> Any:
            return {"z": tf.nn.conv2d(x, self.kernel, 2, "VALID") * t, "t": t + 1.0}

    module = Module()
    return saved(module, wide=module.wide, narrow=module.narrow)


def counter() -> bytes:
    """A variable: CALL_ONCE, VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, and resource tensors."""
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.total = tf.Variable(normal(3))

        @tf.function(input_signature=[tf.TensorSpec((3,), "float32", "x")])
        def add(self, x: Any) -> Any:
            return {"y": self.total.assign_add(x) * 1.0}

    module = Module()
    return saved(module, add=module.add)


def dictionary() -> bytes:
    """A hash table from strings: string tensors, one of them constant."""
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            keys, values = tf.constant(["cat", "dog", "fox"]), tf.constant([3, 1, 2], tf.int64)
            initial = tf.lookup.KeyValueTensorInitializer(keys, values)
            self.table = tf.lookup.StaticHashTable(initial, -1)

        @tf.function(input_signature=[tf.TensorSpec((4,), tf.string, "words")])
        def find(self, words: Any) -> Any:
            return {"ids": self.table.lookup(words)}

    module = Module()
    return saved(module, find=module.find)


def spectrogram() -> bytes:
    """A custom operator with options, which the runtime has built in."""
    import tensorflow as tf

    def function(x: Any) -> Any:
        return {"y": tf.raw_ops.AudioSpectrogram(input=x, window_size=64, stride=32, magnitude_squared=True)}

    return _converted(function, [((256, 1), "float32")], allow_custom_ops=True)


def flex() -> bytes:
    """A TensorFlow operator, which only TensorFlow's own runtime has."""
    import tensorflow as tf

    return _converted(lambda x: {"y": tf.math.erf(tf.tanh(x))}, [((2, 3), "float32")], flex=True)


def dynamic() -> bytes:
    """A batch that is not known: shape_signature, SHAPE, and a RESHAPE to what is computed."""
    import tensorflow as tf

    matrix = normal(6, 5)

    def function(x: Any) -> Any:
        return {"y": tf.reshape(tf.matmul(x, matrix), [-1, tf.shape(x)[0]])}

    return convert(function, ((None, 6), "float32"))  # type: ignore[arg-type]


def unusual_types() -> bytes:
    """bool, int8, int16, uint8, int64, float64 and complex64 tensors and constants."""
    import tensorflow as tf

    def function(x: Any, n: Any) -> Any:
        wave = tf.signal.rfft2d(tf.cast(x, tf.float32))
        return {
            "wave": tf.math.real(wave),
            "wide": tf.cast(x, tf.float64),
            "where": tf.where(n > np.arange(4, dtype=np.int64), n, np.int64(7) * n),
            "short": tf.cast(n, tf.int16),
            "bytes": tf.cast(tf.abs(x), tf.uint8),
            "mask": tf.logical_and(n > 1, np.array([True, False, True, True])),
        }

    return convert(function, ((4, 8), "float32"), ((4,), "int64"))


def to_scalar() -> bytes:
    """RESHAPE to no axes: its shape is a constant without elements."""
    import tensorflow as tf

    return convert(lambda x: {"y": tf.reshape(x, []) * 2.0}, ((1, 1), "float32"))


def sparse() -> bytes:
    """FULLY_CONNECTED whose weights hold only what is not zero, row by row."""
    edited = edited_models.unpacked("dense_float32")
    graph = edited.subgraphs[0]
    tensor = graph.tensors[graph.operators[0].inputs[1]]
    buffer = edited.buffers[tensor.buffer]
    dense = buffer.data.view(np.float32).reshape(tensor.shape).copy()
    dense[np.abs(dense) < 0.3] = 0
    rows = len(dense)
    tensor.sparsity = schema.SparsityParametersT()
    tensor.sparsity.traversalOrder = np.array([0, 1], np.int32)
    outer, inner = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    outer.denseSize, inner.format = rows, schema.DimensionType.SPARSE_CSR
    inner.arraySegmentsType = inner.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    inner.arraySegments, inner.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    inner.arraySegments.values = np.cumsum([0, *np.count_nonzero(dense, axis=1)]).astype(np.int32)
    inner.arrayIndices.values = np.nonzero(dense)[1].astype(np.int32)
    tensor.sparsity.dimMetadata = [outer, inner]
    buffer.data = dense[dense != 0].view(np.uint8)
    return edited_models.packed(edited)


def blockwise(zero_points: int) -> bytes:
    """FULLY_CONNECTED in int4 with a float16 scale for every 32 weights, which is a tensor of its own.

    `zero_points` is another, tensor 2, or -1, as ai-edge-quantizer writes where there are none.
    """
    content, _ = edited_models.int4("dense_int8")
    edited = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = edited.subgraphs[0]
    weights = graph.tensors[graph.operators[0].inputs[1]]
    scales, zeros = schema.TensorT(), schema.TensorT()
    for tensor, name, dtype in ((scales, b"scales", np.float16), (zeros, b"zeros", np.int32)):
        tensor.name, tensor.shape = name, [48, 2]
        tensor.type = schema.TensorType.FLOAT16 if dtype == np.float16 else schema.TensorType.INT32
        tensor.buffer = len(edited.buffers)
        edited.buffers.append(schema.BufferT())
        values = np.full((48, 2), 1 / 64) if dtype == np.float16 else np.zeros((48, 2))
        edited.buffers[-1].data = values.astype(dtype).reshape(-1).view(np.uint8)
    weights.quantization = schema.QuantizationParametersT()
    weights.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    weights.quantization.details = details = schema.BlockwiseQuantizationT()
    graph.tensors = [graph.tensors[0], scales, zeros, *graph.tensors[1:]]
    details.scales, details.zeroPoints, details.blockSize = 1, zero_points, 32
    _renumber(graph, lambda i: i + 2 if i >= 1 else i)
    for entry in (*edited.signatureDefs[0].inputs, *edited.signatureDefs[0].outputs):
        entry.tensorIndex += 2 if entry.tensorIndex >= 1 else 0
    return edited_models.packed(edited)


def _renumber(graph: Any, new: Callable[[int], int]) -> None:
    graph.inputs, graph.outputs = [new(i) for i in graph.inputs], [new(i) for i in graph.outputs]
    for op in graph.operators:
        op.inputs, op.outputs = [new(int(i)) for i in op.inputs], [new(int(i)) for i in op.outputs]


def rare_fields() -> bytes:
    """Fields that converters seldom or never set."""
    edited = edited_models.unpacked("whole")
    edited.description = b"a description"
    edited.metadataBuffer = [len(edited.buffers)]
    edited.buffers.append(schema.BufferT())
    edited.buffers[-1].data = np.frombuffer(b"unnamed metadata", np.uint8)
    group, external = schema.ExternalBufferGroupT(), schema.ExternalBufferT()
    group.name, external.id, external.length, external.packing = b"weights.bin", 7, 96, b"none"
    edited.externalBufferGroups, edited.externalBuffers = [group], [external]
    graph = edited.subgraphs[0]
    graph.debugMetadataIndex = 3
    graph.operators[0].debugMetadataIndex = 4
    graph.operators[0].mutatingVariableInputs = np.array([False, False, True])
    variant = schema.VariantSubTypeT()
    variant.shape, variant.hasRank = np.array([2, 3], np.int32), True
    graph.tensors[-1].variantTensors = [variant]
    quantization = schema.QuantizationParametersT()
    quantization.min, quantization.max = np.array([-1], np.float32), np.array([1.5], np.float32)
    quantization.detailsType = schema.QuantizationDetails.CustomQuantization
    quantization.details = schema.CustomQuantizationT()
    quantization.details.custom = np.arange(5, dtype=np.uint8)
    graph.tensors[-1].quantization = quantization
    return edited_models.packed(edited)


def other_options() -> bytes:
    """A CONV_2D with options in both unions, a RELU with those of SUB, and an ADD without any."""
    edited = edited_models.unpacked("two_by_two")
    conv, _, relu, add = edited.subgraphs[0].operators
    conv.builtinOptions2Type = schema.BuiltinOptions2.StablehloShiftLeftOptions
    conv.builtinOptions2 = schema.StablehloShiftLeftOptionsT()
    relu.builtinOptions, relu.builtinOptionsType = schema.SubOptionsT(), schema.BuiltinOptions.SubOptions
    add.builtinOptions, add.builtinOptionsType = None, schema.BuiltinOptions.NONE
    return edited_models.packed(edited)


def composite() -> bytes:
    """STABLEHLO_COMPOSITE, whose options are in the second union and name a subgraph."""
    edited = schema.ModelT.InitFromPackedBuf(edited_models.composite("whole"), 0)
    options = edited.subgraphs[0].operators[0].builtinOptions2
    options.compositeAttributes = np.frombuffer(flexbuffers.Dumps({"epsilon": 0.5}), np.uint8)
    return edited_models.packed(edited)


MODELS: dict[str, Callable[[], bytes]] = {
    "loop": lambda: tiny_models.model("loop"),
    "condition": condition,
    "many_results": many_results,
    "lstm": lambda: _lstm(False),
    "lstm_int8": lambda: _lstm(True),
    "conv_float16": lambda: tiny_models.model("conv_float16"),
    "conv_int8": lambda: tiny_models.model("conv_int8"),
    "depthwise_int8": lambda: tiny_models.model("depthwise_int8"),
    "dense_int4": lambda: edited_models.int4("dense_int8")[0],
    "table_int8": lambda: edited_models.lookup(23),
    "integers": integers,
    "two_signatures": two_signatures,
    "counter": counter,
    "dictionary": dictionary,
    "spectrogram": spectrogram,
    "flex": flex,
    "dynamic": dynamic,
    "unusual_types": unusual_types,
    "to_scalar": to_scalar,
    "sparse": sparse,
    "blockwise": lambda: blockwise(2),
    "blockwise_symmetric": lambda: blockwise(-1),
    "composite": composite,
    "other_options": other_options,
    "rare_fields": rare_fields,
}
