"""What the page says where LiteRT.js fails: a stand-in for it, in Node.js, fails in each way."""

from __future__ import annotations

from typing import Any

from tests.web.node import evaluate

SCRIPT = """
import { openLiteRt } from './msd/litert.js';
Object.assign(globalThis, { GPUError: class {}, GPUOutOfMemoryError: class {} });
const [{ features, aborts, refuses }] = input;
const device = new EventTarget();
Object.assign(device, {
  features: new Set(features),
  lost: new Promise(() => {}),
  queue: { onSubmittedWorkDone: async () => {} },
});
const opened = [];
class Tensor {
  async copyTo() { return this; }
  async data() { return new Float32Array(1); }
  delete() {}
}
const compile = async (_, { gpuOptions: { precision } }) => {
  opened.push(precision);
  if (aborts) throw new Error('Aborted(). Build with -sASSERTIONS for more info.');
  const run = async () => {
    if (!refuses.includes(precision)) return { y: new Tensor() };
    for (const message of ["'f16' type used without it\\nconst", 'more']) {
      device.dispatchEvent(Object.assign(new Event('uncapturederror'), { error: { message } }));
    }
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
console.log(JSON.stringify([opened, said]));
"""


def outcome(features: list[str], refuses: list[str], aborts: bool = False) -> Any:
    return evaluate(SCRIPT, {"features": features, "aborts": aborts, "refuses": refuses})


def test_webassembly_that_aborts_has_too_little_memory() -> None:
    (_, (code, message)) = outcome([], [], aborts=True)
    assert code == "out-of-memory"
    assert message.startswith(
        "LiteRT.js gave up unet, which it does where its WebAssembly has too little memory"
    )


def test_what_webgpu_refuses_in_float16_runs_in_float32() -> None:
    opened, (precision, log) = outcome(["shader-f16"], ["fp16"])
    assert opened == ["fp16", "closed", "fp32"]
    assert precision == "fp32"
    refused = "WebGPU refuses what LiteRT.js makes of unet: 'f16' type used without it, and 1 more."
    assert log == [f"msd: not in float16: {refused}"]


def test_what_webgpu_refuses_in_float32_is_an_error() -> None:
    opened, (code, message) = outcome([], ["fp32"])
    assert opened == ["fp32"]
    assert code == "failed"
    assert message == "WebGPU refuses what LiteRT.js makes of unet: 'f16' type used without it, and 1 more."


def test_what_webgpu_takes_stays_in_float16() -> None:
    assert outcome(["shader-f16"], []) == [["fp16"], ["fp16", []]]
