import { MsdError } from './errors.js';
import { awaited, failure, finished, listen } from './gpu-errors.js';
import { wordsOf } from './gpu.js';
import { readLiteRtLog } from './litert-log.js';

/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 *
 * @typedef {{ data(): Promise<Float32Array | Int32Array>, copyTo(where: string): Promise<LiteRtTensor>,
 *   delete(): void }} LiteRtTensor
 * @typedef {{ name: string, shape: Int32Array, dtype: string }} LiteRtPort
 * @typedef {{ run(inputs: Record<string, LiteRtTensor>): Promise<Record<string, LiteRtTensor>>,
 *   getInputDetails(): readonly LiteRtPort[], isFullyAccelerated: boolean,
 *   options: { accelerator: string }, delete(): void }} LiteRtModel
 * @typedef {{ loadLiteRt(wasm: string): Promise<unknown>, unloadLiteRt(): void, getWebGpuDevice(): GPUDevice,
 *   loadAndCompile(model: Uint8Array, options: object): Promise<LiteRtModel>,
 *   Tensor: new (values: Float32Array | Int32Array, shape: Int32Array) => LiteRtTensor }} LiteRt
 *
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./network.js').Tensors} Tensors
 */

/**
 * What LiteRT has logged since it was loaded, which it does to the console otherwise.
 *
 * @type {string[]}
 */
const log = [];

/** @type {Promise<LiteRt> | null} */
let loaded = null;

/**
 * Opens a network on LiteRT.js's GPU accelerator, and nowhere else: what the GPU does not take whole is
 * refused. A network whose shaders WebGPU refuses in float16 is compiled again in float32: some of LiteRT.js
 * 2.5.3 lack `enable f16`.
 *
 * @param {{ module: string, wasm: string }} place where LiteRT.js is, from `baseUrl`
 * @param {string | URL} baseUrl
 * @param {() => Promise<Uint8Array>} readModel returns the .tflite file
 * @param {{ role: string, operations: number }} network
 * @returns {Promise<Network>}
 * @throws {MsdError} no-webgpu, out-of-memory, device-lost, failed
 */
export async function openLiteRt(place, baseUrl, readModel, network) {
  const liteRt = await (loaded ??= load(place, baseUrl));
  const device = liteRt.getWebGpuDevice();
  if (!device) throw new MsdError('no-webgpu', 'LiteRT.js finds no GPU that the browser lets it use.');
  const bytes = await readModel();
  const begin = log.length;
  const open = (/** @type {'fp16' | 'fp32'} */ precision) => opened(liteRt, bytes, precision, network, begin);
  if (!device.features.has('shader-f16')) return open('fp32');
  try {
    const half = await open('fp16');
    await half.tryOut();
    return half;
  } catch (problem) {
    if (!(problem instanceof RefusedShader)) throw problem;
    log.push(`msd: not in float16: ${problem.message}`);
    return open('fp32');
  }
}

/**
 * @param {LiteRt} liteRt
 * @param {Uint8Array} bytes
 * @param {'fp16' | 'fp32'} precision
 * @param {{ role: string, operations: number }} network
 * @param {number} begin of what was logged for it
 */
async function opened(liteRt, bytes, precision, { role, operations }, begin) {
  const device = liteRt.getWebGpuDevice();
  const action = () => compile(liteRt, bytes, precision, role);
  const model = await unrefused(device, role, action, (refused) => refused.delete());
  const lines = log.slice(begin).filter((line) => line.trim());
  /** @type {import('./network.js').NetworkFacts} */
  const facts = { precision, operations, delegated: operations, partitions: 1, log: lines };
  return new LiteRtNetwork(liteRt, device, model, role, facts);
}

/** WebGPU refuses something that LiteRT.js asked of it. */
class RefusedShader extends MsdError {}

/**
 * Does something with LiteRT.js, which does not ask WebGPU whether it refuses any of it, and computes on.
 *
 * @template T
 * @param {GPUDevice} device
 * @param {string} role
 * @param {() => Promise<T>} action
 * @param {(result: T) => void} [undo] frees what came of an action of which something was refused
 * @returns {Promise<T>}
 * @throws {MsdError} RefusedShader, out-of-memory, device-lost, and what the action throws
 */
async function unrefused(device, role, action, undo) {
  const heard = listen(device);
  const [outcome] = await Promise.allSettled([action()]);
  const error = await heard();
  if (outcome.status === 'rejected') throw outcome.reason;
  if (!error) return outcome.value;
  undo?.(outcome.value);
  if (error instanceof GPUOutOfMemoryError) throw await failure(device, role, error);
  const words = error.message.split('\n', 1)[0].trim().replace(/\.$/, '');
  throw new RefusedShader('failed', `WebGPU refuses what LiteRT.js makes of ${role}: ${words}.`, error);
}

/**
 * @param {LiteRt} liteRt
 * @param {Uint8Array} bytes
 * @param {'fp16' | 'fp32'} precision
 * @param {string} role
 */
async function compile(liteRt, bytes, precision, role) {
  const begin = log.length;
  const options = { accelerator: 'webgpu', gpuOptions: { precision } };
  const action = () => liteRt.loadAndCompile(bytes, options);
  const model = await explained(liteRt.getWebGpuDevice(), role, action).catch((problem) => {
    throw refusal(role, log.slice(begin)) ?? problem;
  });
  const found = refusal(role, log.slice(begin));
  if (!found && model.options.accelerator === 'webgpu' && model.isFullyAccelerated) return model;
  model.delete();
  throw found ?? new MsdError('failed', `This GPU does not take ${role} whole.`);
}

/**
 * Returns the error for a file of which LiteRT's log says that a part of it is not on the GPU, else null.
 *
 * @param {string} role
 * @param {string[]} lines
 */
function refusal(role, lines) {
  const { whole, refusals, errors } = readLiteRtLog(lines.join('\n'));
  if (whole && !refusals.length && !errors.length) return null;
  const words = [...refusals, ...errors].map((line) => line.replace(/\.$/, '')).join('; ');
  const reason = words || 'LiteRT does not say why';
  return new MsdError('failed', `This GPU does not take ${role} whole: ${reason}.`);
}

/** @implements {Network} */
class LiteRtNetwork {
  #liteRt;
  #device;
  #model;
  #role;
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /**
   * @param {LiteRt} liteRt
   * @param {GPUDevice} device
   * @param {LiteRtModel} model
   * @param {string} role
   * @param {import('./network.js').NetworkFacts} facts
   */
  constructor(liteRt, device, model, role, facts) {
    this.#liteRt = liteRt;
    this.#device = device;
    this.#model = model;
    this.#role = role;
    this.facts = facts;
  }

  /**
   * @param {Tensors} inputs
   * @returns {Promise<Tensors>}
   */
  run(inputs) {
    return this.#inTurn(async (given) => {
      const outputs = await this.#model.run(given);
      try {
        const read = Object.entries(outputs).map(async ([name, tensor]) => [name, await tensor.data()]);
        return Object.fromEntries(await Promise.all(read));
      } finally {
        free(outputs);
      }
    }, inputs);
  }

  /**
   * @param {Tensors} inputs
   * @param {number} repeats
   * @returns {Promise<number[]>}
   */
  time(inputs, repeats) {
    return this.#inTurn(async (given) => {
      const times = [];
      for (let i = 0; i < repeats; i++) times.push(await this.#timeOnce(given));
      return times;
    }, inputs);
  }

  /**
   * Runs once, and closes where WebGPU refuses something of it.
   *
   * @throws {RefusedShader}
   */
  async tryOut() {
    const zeros = this.#model.getInputDetails().map(({ name, shape, dtype }) => {
      const size = shape.reduce((product, n) => product * n, 1);
      return [name, dtype === 'int32' ? new Int32Array(size) : new Float32Array(size)];
    });
    try {
      await this.time(Object.fromEntries(zeros), 1);
    } catch (problem) {
      this.close();
      throw problem;
    }
  }

  close() {
    this.#model.delete();
  }

  /** @param {Record<string, LiteRtTensor>} given */
  async #timeOnce(given) {
    await finished(this.#device);
    const start = performance.now();
    free(await this.#model.run(given));
    await finished(this.#device);
    return performance.now() - start;
  }

  /**
   * Runs take turns, as they share the model's memory.
   *
   * @template T
   * @param {(given: Record<string, LiteRtTensor>) => Promise<T>} action gets the inputs on the GPU
   * @param {Tensors} inputs
   * @returns {Promise<T>}
   */
  #inTurn(action, inputs) {
    const withInputs = async () => {
      const given = await this.#uploaded(inputs);
      try {
        return await action(given);
      } finally {
        free(given);
      }
    };
    const run = () => explained(this.#device, this.#role, withInputs);
    const result = this.#turn.then(() => unrefused(this.#device, this.#role, run));
    this.#turn = result.catch(() => undefined);
    return result;
  }

  /**
   * @param {Tensors} inputs
   * @throws {MsdError} bad-request
   */
  async #uploaded(inputs) {
    /** @type {Record<string, LiteRtTensor>} */
    const tensors = {};
    for (const { name, shape, dtype } of this.#model.getInputDetails()) {
      const size = shape.reduce((product, n) => product * n, 1);
      const values = inputs[name];
      if (values?.length !== size || (dtype === 'int32') !== values instanceof Int32Array) {
        free(tensors);
        throw new MsdError('bad-request', `${this.#role} takes ${size} numbers of ${dtype} for ${name}.`);
      }
      const tensor = new this.#liteRt.Tensor(values, shape);
      tensors[name] = await tensor.copyTo('webgpu');
      tensor.delete();
    }
    return tensors;
  }
}

/**
 * @param {{ module: string, wasm: string }} place
 * @param {string | URL} baseUrl
 * @returns {Promise<LiteRt>}
 */
async function load(place, baseUrl) {
  const wasm = new URL(place.wasm, baseUrl).href;
  /** @type {any} */
  const scope = globalThis;
  const printErr = (/** @type {string} */ line) => log.push(line);
  const locateFile = (/** @type {string} */ name) => new URL(name, wasm).href;
  scope.Module = { locateFile, print: printErr, printErr };
  try {
    /** @type {LiteRt} */
    const liteRt = await import(new URL(place.module, baseUrl).href);
    await liteRt.loadLiteRt(wasm);
    const device = liteRt.getWebGpuDevice();
    void device?.lost.then(() => forget(liteRt));
    return liteRt;
  } catch (problem) {
    loaded = null;
    throw new MsdError('failed', `LiteRT.js cannot be loaded: ${wordsOf(problem)}`, problem);
  }
}

/**
 * Lets the next network open LiteRT.js anew, with another device.
 *
 * @param {LiteRt} liteRt
 */
function forget(liteRt) {
  loaded = null;
  liteRt.unloadLiteRt();
}

/** @param {Record<string, LiteRtTensor>} tensors */
function free(tensors) {
  for (const tensor of Object.values(tensors)) tensor.delete();
}

/**
 * @template T
 * @param {GPUDevice} device
 * @param {string} role
 * @param {() => Promise<T>} action
 * @returns {Promise<T>}
 */
async function explained(device, role, action) {
  try {
    return await awaited(device, role, action());
  } catch (problem) {
    const cause = problem instanceof MsdError ? problem.cause : problem;
    const words = wordsOf(cause);
    if (/memory|OOM|allocat/i.test(words)) {
      const sentence = `LiteRT.js has too little memory for ${role}. Reload the page to try again.`;
      throw new MsdError('out-of-memory', sentence, cause);
    }
    if (!words.startsWith('Aborted(')) throw problem;
    const why = 'which it does where its WebAssembly has too little memory for a network';
    const sentence = `LiteRT.js gave up ${role}, ${why}. Reload the page to try again.`;
    throw new MsdError('out-of-memory', sentence, cause);
  }
}
