import { checkCancelled } from './errors.js';
import { awaited, checked, finished } from './gpu-errors.js';
import { checkInputs, decode, encode } from './ports.js';
import { PARAMS, checkShard, createBuffers, outputPlaces, writeShard } from './program-buffers.js';
import { checkDescription, paramsOf } from './program-description.js';
import { createDispatches } from './program-dispatches.js';
import { requireLimits } from './program-limits.js';

/**
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./network.js').Tensors} Tensors
 * @typedef {import('./program-description.js').ProgramDescription} ProgramDescription
 * @typedef {import('./program-dispatches.js').Dispatch} Dispatch
 */

/** The dispatches of one command buffer: short ones keep the screen alive, and drivers from giving up. */
const PIECE = 64;

/**
 * Opens a network that msd.gpu compiled: compiles its shaders, and puts its weights into the GPU's memory,
 * of which no more than one shard is in the browser's.
 *
 * @param {GPUDevice} device
 * @param {unknown} description the parsed JSON of the program
 * @param {(index: number) => Promise<ArrayBuffer>} readShard
 * @param {AbortSignal} [signal]
 * @param {boolean} [verified] whether readShard compares what it reads with the SHA-256 in the description
 * @returns {Promise<Network>}
 * @throws {MsdError} damaged, too-small, out-of-memory, device-lost, cancelled, failed
 */
export async function openProgram(device, description, readShard, signal, verified = false) {
  const program = checkDescription(description);
  const params = paramsOf(program);
  requireLimits(device, program);
  const buffers = await createBuffers(device, program);
  try {
    device.queue.writeBuffer(buffers[PARAMS], 0, params);
    const dispatches = await createDispatches(device, program, buffers, signal);
    for (const index of program.shards.keys()) {
      checkCancelled(signal);
      const content = await readShard(index);
      if (!verified) await checkShard(program.shards[index], content);
      await writeShard(device, program.shards[index], buffers, content);
    }
    checkCancelled(signal);
    return new ProgramNetwork(device, program, buffers, dispatches);
  } catch (problem) {
    for (const buffer of buffers) buffer.destroy();
    throw problem;
  }
}

/** @implements {Network} */
class ProgramNetwork {
  #device;
  #program;
  #buffers;
  #dispatches;
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /**
   * @param {GPUDevice} device
   * @param {ProgramDescription} program
   * @param {GPUBuffer[]} buffers those of the program, and one that outputs are read from
   * @param {Dispatch[]} dispatches
   */
  constructor(device, program, buffers, dispatches) {
    this.#device = device;
    this.#program = program;
    this.#buffers = buffers;
    this.#dispatches = dispatches;
    /** @type {import('./network.js').NetworkFacts} */
    this.facts = {
      precision: program.half ? 'fp16' : 'fp32',
      dispatches: dispatches.length,
      memory: program.buffers.reduce((sum, bytes) => sum + bytes, 0),
    };
  }

  /**
   * @param {Tensors} inputs
   * @returns {Promise<Tensors>}
   */
  run(inputs) {
    checkInputs(this.#program.inputs, inputs);
    return this.#inTurn(async () => {
      await checked(this.#device, 'the network', () => {
        this.#write(inputs);
        this.#submit();
        this.#copyOutputs();
      });
      return this.#read();
    });
  }

  /**
   * @param {Tensors} inputs
   * @param {number} repeats
   * @returns {Promise<number[]>}
   */
  time(inputs, repeats) {
    checkInputs(this.#program.inputs, inputs);
    return this.#inTurn(async () => {
      const times = [];
      for (let i = 0; i < repeats; i++) times.push(await this.#timeOnce(inputs));
      return times;
    });
  }

  close() {
    for (const buffer of this.#buffers) buffer.destroy();
  }

  /** @param {Tensors} inputs */
  async #timeOnce(inputs) {
    await checked(this.#device, 'the network', () => this.#write(inputs));
    await finished(this.#device);
    const start = performance.now();
    await checked(this.#device, 'the network', () => this.#submit());
    await finished(this.#device);
    return performance.now() - start;
  }

  /**
   * Runs that share buffers take turns.
   *
   * @template T
   * @param {() => Promise<T>} action
   * @returns {Promise<T>}
   */
  #inTurn(action) {
    const result = this.#turn.then(action);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  /** @param {Tensors} inputs */
  #write(inputs) {
    for (const [name, port] of Object.entries(this.#program.inputs)) {
      const { buffer, offset } = port.place;
      this.#device.queue.writeBuffer(this.#buffers[buffer], offset, encode(port, inputs[name]));
    }
  }

  #submit() {
    for (let start = 0; start < this.#dispatches.length; start += PIECE) {
      const encoder = this.#device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      for (const { pipeline, group, groups } of this.#dispatches.slice(start, start + PIECE)) {
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(...groups);
      }
      pass.end();
      this.#device.queue.submit([encoder.finish()]);
    }
  }

  #copyOutputs() {
    const encoder = this.#device.createCommandEncoder();
    for (const { port, start } of outputPlaces(this.#program)) {
      const source = this.#buffers[port.place.buffer];
      encoder.copyBufferToBuffer(source, port.place.offset, this.#results, start, port.place.bytes);
    }
    this.#device.queue.submit([encoder.finish()]);
  }

  /** @returns {Promise<Tensors>} */
  async #read() {
    await awaited(this.#device, 'the network', this.#results.mapAsync(GPUMapMode.READ));
    /** @type {Tensors} */
    const outputs = {};
    for (const { name, port, start } of outputPlaces(this.#program)) {
      outputs[name] = decode(port, this.#results.getMappedRange(start, port.place.bytes));
    }
    this.#results.unmap();
    return outputs;
  }

  get #results() {
    return this.#buffers[this.#buffers.length - 1];
  }
}
