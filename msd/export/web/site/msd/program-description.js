import { MsdError } from './errors.js';

/**
 * A network as buffers and dispatches of compute shaders: what msd/gpu/store.py writes.
 *
 * @typedef {{ buffer: number, offset: number, bytes: number }} Place
 * @typedef {{ shape: number[], dtype: string, element: 'f32' | 'f16' | 'i32' | 'u32', place: Place }} Port
 * @typedef {{ file: string, place: Place, sha256: string }} Shard
 * @typedef {{ name: string, wgsl: string, bindings: GPUBufferBindingType[] }} Pipeline
 * @typedef {{ pipeline: number, places: Place[], groups: [number, number, number], operation: string }} Step
 *
 * @typedef {object} ProgramDescription
 * @property {number} format
 * @property {boolean} half whether it needs the feature shader-f16
 * @property {number[]} buffers their bytes: of activations, parameters, constants, further activations
 * @property {string} params the content of buffer 1, in base64
 * @property {Shard[]} shards the constants
 * @property {Pipeline[]} pipelines
 * @property {Step[]} steps
 * @property {Record<string, Port>} inputs
 * @property {Record<string, Port>} outputs
 */

const FORMAT = 1;
const ELEMENTS = ['f32', 'f16', 'i32', 'u32'];
const BINDINGS = ['storage', 'read-only-storage', 'uniform'];

/**
 * Checks that all numbers of a description are what a program can have: it may come from anywhere.
 *
 * @param {unknown} value parsed JSON
 * @returns {ProgramDescription}
 * @throws {MsdError} damaged
 */
export function checkDescription(value) {
  const program = /** @type {ProgramDescription} */ (value);
  if (program?.format !== FORMAT) throw damaged(`it has format ${program?.format}, not ${FORMAT}`);
  const { buffers, shards, pipelines, steps, inputs, outputs, half, params } = program;
  const lists = [buffers, shards, pipelines, steps].every(Array.isArray);
  const objects = [inputs, outputs].every(isObject);
  if (!lists || !objects || typeof half !== 'boolean' || typeof params !== 'string') {
    throw damaged('a part of it is missing');
  }
  if (buffers.length < 2 || !buffers.every(isCount)) throw damaged('its buffers have no sizes');
  for (const pipeline of pipelines) checkPipeline(pipeline);
  for (const step of steps) checkStep(step, program);
  for (const shard of shards) checkShard(shard, buffers);
  for (const port of [...Object.values(inputs), ...Object.values(outputs)]) checkPort(port, buffers);
  return program;
}

/**
 * @param {ProgramDescription} program
 * @returns {Uint8Array<ArrayBuffer>} the content of its buffer of parameters, whole words
 * @throws {MsdError} damaged
 */
export function paramsOf(program) {
  /** @type {string} */
  let text;
  try {
    text = atob(program.params);
  } catch {
    throw damaged('its parameters are not base64');
  }
  if (text.length % 4 || text.length > program.buffers[1]) throw damaged('its parameters have another size');
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

/** @param {string} why */
export function damaged(why) {
  return new MsdError('damaged', `The network's program is damaged: ${why}. Fetch it again.`);
}

/** @param {Pipeline} pipeline */
function checkPipeline(pipeline) {
  const { name, wgsl, bindings } = pipeline ?? {};
  const known = Array.isArray(bindings) && bindings.every((kind) => BINDINGS.includes(kind));
  if (typeof wgsl !== 'string' || !known) throw damaged(`its shader ${name} is not whole`);
}

/**
 * @param {Step} step
 * @param {ProgramDescription} program
 */
function checkStep(step, program) {
  const { places, groups, operation } = step ?? {};
  const pipeline = program.pipelines[step?.pipeline];
  if (!pipeline || !Array.isArray(places) || places.length !== pipeline.bindings.length) {
    throw damaged(`a step of ${operation} has another number of bindings than its shader`);
  }
  const sized = Array.isArray(groups) && groups.length === 3 && groups.every(isCount);
  if (!sized) throw damaged(`a step of ${operation} has no size`);
  for (const place of places) checkPlace(place, program.buffers);
}

/**
 * @param {Shard} shard
 * @param {number[]} buffers
 */
function checkShard(shard, buffers) {
  checkPlace(shard?.place, buffers);
  const hashed = /^[0-9a-f]{64}$/.test(shard.sha256);
  if (shard.place.bytes % 4 || !hashed) throw damaged('a shard has no size or SHA-256');
}

/**
 * @param {Port} port
 * @param {number[]} buffers
 */
function checkPort(port, buffers) {
  checkPlace(port?.place, buffers);
  const { shape, element, place } = port;
  if (!Array.isArray(shape) || !shape.every(isCount) || place.bytes % 4 || !ELEMENTS.includes(element)) {
    throw damaged('an input or output has no shape');
  }
  const bytes = shape.reduce((product, n) => product * n, element === 'f16' ? 2 : 4);
  if (bytes > place.bytes) throw damaged('an input or output is larger than its place');
}

/**
 * @param {Place} place
 * @param {number[]} buffers
 */
function checkPlace(place, buffers) {
  const { buffer, offset, bytes } = place ?? {};
  const counts = isCount(buffer) && isCount(offset) && isCount(bytes) && offset % 4 === 0;
  if (!counts || !(offset + bytes <= buffers[buffer])) throw damaged('a binding lies outside its buffer');
}

/** @param {unknown} value */
function isCount(value) {
  return Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
