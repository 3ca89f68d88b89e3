#!/usr/bin/env bash
# LiteRT's CPU drops a fused TANH: the operator computes as if it had no activation, and says nothing.
#
# ai-edge-litert 2.3.0. The schema's ActivationFunctionType has NONE, RELU, RELU_N1_TO_1, RELU6, TANH and SIGN_BIT.
# Expected: tanh of the sum, or a refusal as FULLY_CONNECTED gives one ("params->activation == ..." fails).
# Seen: ADD, SUB, MUL, DIV and CONV_2D run and return the bare number, with XNNPACK, with the optimised kernels and
# with the reference kernels alike: 3 + 2 with TANH fused is 5, tanh(5) is 0.9999. RELU6 beside it is applied.
# It matters to whoever fuses activations in a converter of their own: GPU delegates do apply it, so the CPU, which
# everyone takes as the reference, is the one that is wrong. TAESD ends its latents in such a tanh.
# Written: the enumeration is in the schema; that the kernels ignore two of its members is not written there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ai-edge-litert==2.3.0 numpy==1.26.4 flatbuffers==25.12.19
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

RESOLVERS = (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF)


def run(kind, options, activation, resolver):
    """Return what `kind` makes of 3 and 2, with the activation fused."""
    model, graph, code, op = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT()
    graph.tensors = []
    for name, shape in (("a", (1, 1, 1, 1)), ("b", (1, 1, 1, 1)), ("bias", (1,)), ("result", (1, 1, 1, 1))):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), shape, 0, 0
        graph.tensors.append(tensor)
    convolves = kind == "CONV_2D"
    if convolves:
        options.strideH = options.strideW = options.dilationHFactor = options.dilationWFactor = 1
    options.fusedActivationFunction = activation
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind)
    code.version, op.opcodeIndex, op.builtinOptions = 1, 0, options
    op.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
    op.inputs, op.outputs = [0, 1, 2] if convolves else [0, 1], [3]
    graph.inputs, graph.outputs, graph.operators = [0, 1, 2] if convolves else [0, 1], [3], [op]
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = Interpreter(model_content=bytes(builder.Output()), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.full((1, 1, 1, 1), 3, np.float32))
    interpreter.set_tensor(1, np.full((1, 1, 1, 1), 2, np.float32))
    if convolves:
        interpreter.set_tensor(2, np.zeros(1, np.float32))
    interpreter.invoke()
    return float(interpreter.get_tensor(3).item())


act = schema.ActivationFunctionType
kinds = {"ADD": (schema.AddOptionsT, 5.0), "SUB": (schema.SubOptionsT, 1.0), "MUL": (schema.MulOptionsT, 6.0),
         "DIV": (schema.DivOptionsT, 1.5), "CONV_2D": (schema.Conv2DOptionsT, 6.0)}
for kind, (options, bare) in kinds.items():
    tanh = [run(kind, options(), act.TANH, resolver) for resolver in RESOLVERS]
    capped = [run(kind, options(), act.RELU_N1_TO_1, resolver) for resolver in RESOLVERS]
    print(f"{kind} of 3 and 2: {tanh} with TANH, {capped} with RELU_N1_TO_1; tanh({bare}) = {np.tanh(bare):.4f}")
    assert tanh == [bare] * 3 and capped == [1.0] * 3, "the behaviour changed"
EOF
