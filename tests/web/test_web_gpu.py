"""Which of a model's programs a GPU runs; Node.js has no WebGPU, so that a stand-in tells of the adapter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.node import evaluate

SCRIPT = """
import { findGpu } from './msd/gpu.js';
const [{ vendor, features, limits, kinds }] = input;
const adapter = { features: new Set(features), limits, info: { vendor } };
Object.defineProperty(globalThis, 'navigator', { value: { gpu: { requestAdapter: async () => adapter } } });
const programs = Object.fromEntries(kinds.map((kind) => [kind, { limits: { maxBufferSize: kind.length } }]));
const { precision, kind, needs, problems } = await findGpu({ networks: [{ programs }, { programs }] });
console.log(JSON.stringify([precision, kind, needs.maxBufferSize, problems.length]));
"""
ALL = ["fp16", "fp32", "fp16-discrete", "fp32-discrete"]


@pytest.mark.parametrize(
    ("vendor", "features", "kinds", "wanted"),
    [
        ("nvidia", ["shader-f16"], ALL, ["fp16", "fp16-discrete"]),
        ("nvidia", [], ALL, ["fp32", "fp32-discrete"]),
        ("qualcomm", ["shader-f16"], ALL, ["fp16", "fp16"]),
        ("", [], ALL, ["fp32", "fp32"]),
        ("nvidia", ["shader-f16"], ["fp16", "fp32"], ["fp16", "fp16"]),
    ],
)
def test_the_programs_for_discrete_gpus_are_nvidia_s(
    vendor: str, features: list[str], kinds: list[str], wanted: list[str]
) -> None:
    """A page that was exported before they were has none."""
    facts = {"vendor": vendor, "features": features, "limits": {"maxBufferSize": 99}, "kinds": kinds}
    assert evaluate(SCRIPT, facts) == [*wanted, len(wanted[1]), 0]


def test_a_model_without_programs_needs_no_kind() -> None:
    facts = {"vendor": "nvidia", "features": [], "limits": {}, "kinds": []}
    assert evaluate(SCRIPT, facts)[:2] == ["fp32", "fp32"]


MATRIX_SCRIPT = """
import { findGpu } from './msd/gpu.js';
const [{ features, info, matrices, limit }] = input;
const limits = { maxBufferSize: 10 };
const adapter = { features: new Set(features), limits, info: { vendor: 'nvidia', ...info } };
Object.defineProperty(globalThis, 'navigator', { value: { gpu: { requestAdapter: async () => adapter } } });
const [small, large] = [{ limits: {} }, { limits: { maxBufferSize: 5 } }];
const plain = { fp16: small, fp32: small, 'fp16-discrete': large };
const networks = matrices.map((matrix) => {
  const program = { limits: { maxBufferSize: limit }, matrix };
  return { programs: matrix ? { ...plain, 'fp16-16x16x16': program } : plain };
});
const { kind, fallback, needs, problems } = await findGpu({ networks });
console.log(JSON.stringify([kind, fallback, needs.maxBufferSize, problems.length]));
"""
FEATURES = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"]
UNIT = {"rows": 16, "columns": 8, "depth": 32, "subgroup": 32}
OFFERED = {"componentType": "f16", "resultComponentType": "f32", "M": 16, "N": 8, "K": 32}
SUBGROUPS = {"subgroupMinSize": 32, "subgroupMaxSize": 32}
OTHERS = [
    OFFERED | {"componentType": "i8"},
    OFFERED | {"resultComponentType": "f16"},
    OFFERED | {"M": 8, "N": 16},
]


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({}, True),
        ({"features": FEATURES[:2]}, False),
        ({"features": FEATURES[::2]}, False),
        ({"info": {**SUBGROUPS, "subgroupMatrixConfigs": OTHERS}}, False),
        ({"info": SUBGROUPS}, False),
        ({"info": {**SUBGROUPS, "subgroupMinSize": 8, "subgroupMatrixConfigs": [OFFERED]}}, False),
        ({"info": {**SUBGROUPS, "subgroupMaxSize": 64, "subgroupMatrixConfigs": [OFFERED]}}, False),
        ({"matrices": [UNIT, None]}, False),
        ({"limit": 11}, False),
    ],
)
def test_matrix_units_are_used_where_the_adapter_has_them(changed: dict[str, Any], taken: bool) -> None:
    """All networks need a program for this very unit, and its limits must be the adapter's."""
    info = {**SUBGROUPS, "subgroupMatrixConfigs": [*OTHERS, OFFERED]}
    facts = {"features": FEATURES, "info": info, "matrices": [UNIT, UNIT], "limit": 7} | changed
    discrete = "fp16-discrete"
    wanted = ["fp16-16x16x16", discrete, 7, 0] if taken else [discrete, discrete, 5, 0]
    assert evaluate(MATRIX_SCRIPT, facts) == wanted
