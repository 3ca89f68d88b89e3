"""What the page says where LiteRT.js fails: a stand-in for it, in Node.js, fails in each way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.node import evaluate

SCRIPT = """
import { openLiteRt } from './msd/litert.js';
class GPUError { constructor(message) { this.message = message; } }
class GPUOutOfMemoryError extends GPUError {}
Object.assign(globalThis, { GPUError, GPUOutOfMemoryError });
const [{ features, aborts, refuses, full }] = input;
const scopes = [];
const device = {
  features: new Set(features),
  lost: new Promise(() => {}),
  queue: { onSubmittedWorkDone: async () => {} },
  pushErrorScope(filter) { scopes.push({ filter, first: null }); },
  async popErrorScope() { return scopes.pop().first; },
};
function refuse(filter, error) {
  const scope = scopes.findLast((each) => each.filter === filter);
  scope.first ??= error;
}
const opened = [];
class Tensor {
  async copyTo() { return this; }
  async data() { return new Float32Array(1); }
  delete() {}
}
const compile = async (_, { gpuOptions: { precision } }) => {
  opened.push(precision);
  if (aborts) throw new Error('Aborted(). Build with -sASSERTIONS for more info.');
  if (full) refuse('out-of-memory', new GPUOutOfMemoryError('full'));
  const words = ["'f16' type used without it.\\nconst", 'more'];
  const refuseAll = (when) => {
    if (!refuses.includes(`${precision} ${when}`)) return;
    for (const each of words) refuse('validation', new GPUError(each));
  };
  refuseAll('compiled');
  const run = async () => {
    refuseAll('run');
    return { y: new Tensor() };
  };
  const ports = [{ name: 'x', shape: Int32Array.of(1), dtype: 'float32' }];
  const options = { accelerator: 'webgpu' };
  const close = () => opened.push('closed');
  return { run, options, isFullyAccelerated: true, getInputDetails: () => ports, delete: close };
};
globalThis.standIn = { device, compile, Tensor };
const module = 'data:text/javascript,' + encodeURIComponent(`
  export const loadLiteRt = async () => {};
  export const unloadLiteRt = () => {};
  export const getWebGpuDevice = () => standIn.device;
  export const loadAndCompile = standIn.compile;
  export const Tensor = standIn.Tensor;
`);
let said;
try {
  const place = { module, wasm: 'wasm/' };
  const read = async () => new Uint8Array(1);
  const network = await openLiteRt(place, 'http://localhost/', read, { role: 'unet', operations: 1 });
  said = [network.facts.precision, network.facts.log];
  await network.run({ x: new Float32Array(1) });
} catch ({ code, message }) { said = [code, message]; }
console.log(JSON.stringify([opened, said, scopes.length]));
"""


def outcome(features: list[str], refuses: list[str], aborts: bool = False, full: bool = False) -> Any:
    *told, scopes = evaluate(
        SCRIPT, {"features": features, "aborts": aborts, "refuses": refuses, "full": full}
    )
    assert scopes == 0
    return told


def test_webassembly_that_aborts_has_too_little_memory() -> None:
    (_, (code, message)) = outcome([], [], aborts=True)
    assert code == "out-of-memory"
    assert message.startswith(
        "LiteRT.js gave up unet, which it does where its WebAssembly has too little memory"
    )


REFUSED = "WebGPU refuses what LiteRT.js makes of unet: 'f16' type used without it."


@pytest.mark.parametrize("when", ["compiled", "run"])
def test_what_webgpu_refuses_in_float16_runs_in_float32(when: str) -> None:
    opened, (precision, log) = outcome(["shader-f16"], [f"fp16 {when}"])
    assert opened == ["fp16", "closed", "fp32"]
    assert precision == "fp32"
    assert log == [f"msd: not in float16: {REFUSED}"]


@pytest.mark.parametrize(("when", "closed"), [("compiled", ["closed"]), ("run", [])])
def test_what_webgpu_refuses_in_float32_is_an_error(when: str, closed: list[str]) -> None:
    assert outcome([], [f"fp32 {when}"]) == [["fp32", *closed], ["failed", REFUSED]]


def test_a_gpu_without_memory_is_not_asked_for_float32() -> None:
    opened, (code, message) = outcome(["shader-f16"], [], full=True)
    assert opened == ["fp16", "closed"]
    assert (code, message) == ("out-of-memory", "The GPU has too little memory for unet.")


def test_what_webgpu_takes_stays_in_float16() -> None:
    assert outcome(["shader-f16"], []) == [["fp16"], ["fp16", []]]
