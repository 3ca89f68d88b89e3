"""Which of a model's programs a GPU runs; Node.js has no WebGPU, so that a stand-in tells of the adapter."""

from __future__ import annotations

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
