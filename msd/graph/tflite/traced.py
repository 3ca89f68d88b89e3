"""The flatbuffer of a traced network, whose weights are inputs, as a model that has them as constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msd.graph.ir import SIGNATURE, Model, Signature
from msd.graph.ir.weights import Weights
from msd.graph.tflite.read import parse


def parse_traced(
    flatbuffer: bytes,
    weights: Mapping[str, tuple[str, Weights]],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> Model:
    """Return the model of a traced network with one signature, under the names of its `inputs` and `outputs`.

    `weights` are by the names of their tensors in the flatbuffer, each with the name that it gets.
    """
    model = parse(flatbuffer)
    graph = model.main
    by_name = {tensor.name: tensor for tensor in graph.inputs}
    for key, (name, data) in weights.items():
        by_name[key].data = data
        by_name[key].name = name
    graph.inputs = [by_name[name] for name in inputs]
    results = dict(zip(outputs, graph.outputs, strict=True))
    graph.signatures = [Signature(SIGNATURE, dict(zip(inputs, graph.inputs, strict=True)), results)]
    for tensor in graph.tensors():
        # TensorFlow's converter joins names where it fuses operators.
        tensor.name = tensor.name.partition(";")[0]
    return model
