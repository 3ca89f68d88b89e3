"""The table of operators: what the schema says, by the schema's names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor, opset
from tests.on_cpu import graph, normal, run_graph

KINDS = sorted(set(opset.enum_names(schema.BuiltinOperator).values()) - {"PLACEHOLDER_FOR_GREATER_OP_CODES"})
TWO_FLOATS = ["ADD", "DIV", "FLOOR_DIV", "MAXIMUM", "MINIMUM", "MUL", "POW", "SQUARED_DIFFERENCE", "SUB"]


@pytest.mark.parametrize("kind", TWO_FLOATS)
def test_what_commutes_does(kind: str) -> None:
    """Numbers, both ways round: the same where the table says so, others where it does not."""
    feeds = np.abs(normal(3, 5, seed=1)) + 1, np.abs(normal(3, 5, seed=2)) + 1
    results = []
    for order in (1, -1):
        new, inputs = Build(), [Tensor("x", (3, 5)), Tensor("y", (3, 5))]
        results += run_graph(graph(new, inputs, [getattr(new, kind)(*inputs[::order])]), *feeds)
    assert np.array_equal(*results) == opset.spec(kind).commutes


def written(op_kind: str, folder: Path) -> schema.OperatorT:
    """Return what is written for an operator built without attributes, as the schema reads it."""
    new = Build()
    x = Tensor("x", (1, 4, 5, 2))
    inputs = {"CONV_2D": (x, np.ones((3, 1, 1, 2), np.float32), None), "GATHER": (x, [1])}.get(
        op_kind, (x, x)
    )
    if op_kind == "CONV_2D":
        y = new.CONV_2D(*inputs, stride_h=1, stride_w=1)
    else:
        y = getattr(new, op_kind)(*inputs)
    tflite.write(Model([Graph([x], [y], new.ops)]), folder / "one.tflite")
    return schema.ModelT.InitFromPackedBuf((folder / "one.tflite").read_bytes(), 0).subgraphs[0].operators[0]


def test_defaults_are_those_of_the_schema(tmp_path: Path) -> None:
    assert vars(written("ADD", tmp_path).builtinOptions) == vars(schema.AddOptionsT())
    assert vars(written("GATHER", tmp_path).builtinOptions) == vars(schema.GatherOptionsT())
    conv = vars(schema.Conv2DOptionsT()) | {"strideH": 1, "strideW": 1}
    assert vars(written("CONV_2D", tmp_path).builtinOptions) == conv


def test_attributes_have_the_names_of_schema_fbs() -> None:
    assert opset.spec("CONV_2D").attrs == {
        "padding": "SAME",
        "stride_w": 0,
        "stride_h": 0,
        "fused_activation_function": "NONE",
        "dilation_w_factor": 1,
        "dilation_h_factor": 1,
        "quantized_bias_type": "FLOAT32",
    }
    assert opset.spec("CAST").attrs == {"in_data_type": "FLOAT32", "out_data_type": "FLOAT32"}
    assert opset.spec("TRANSPOSE").attrs == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_builtin_of_the_schema_is_known(kind: str) -> None:
    spec = opset.spec(kind)
    assert spec.kind == kind
    assert spec.options is None or hasattr(schema, spec.options + "T")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("MAX_POOL_2D", "Pool2DOptions"),
        ("MINIMUM", "MaximumMinimumOptions"),
        ("SUM", "ReducerOptions"),
        ("TOPK_V2", "TopKV2Options"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"),
        ("STABLEHLO_COMPOSITE", "StableHLOCompositeOptions"),
        ("RELU", None),
    ],
)
def test_options_tables(kind: str, options: str | None) -> None:
    assert opset.spec(kind).options == options


def test_every_enumeration_has_its_names() -> None:
    for name, enum in opset.ENUMS.items():
        assert all(isinstance(v, str) for v in opset.enum_names(enum).values()), name
    assert opset.enum_names(schema.Padding) == {0: "SAME", 1: "VALID"}


def test_a_misspelt_operator_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"no TFLite op named 'CONV2D'; did you mean CONV_2D\?"):
        opset.spec("CONV2D")
    with pytest.raises(TypeError, match=r"no TFLite op named '\?\?\?'"):
        opset.spec("???")


def test_custom_operators_have_no_attributes() -> None:
    assert opset.spec(opset.CUSTOM + "FlexErf").attrs == {}
    assert opset.spec(opset.CUSTOM + "FlexErf").infer is None
