import { checked, finished } from './gpu-errors.js';
import { damaged } from './program-description.js';
import { sha256 } from './sha256.js';

/**
 * @typedef {import('./program-description.js').ProgramDescription} ProgramDescription
 * @typedef {import('./program-description.js').Shard} Shard
 */

/** The number of the buffer of parameters. */
export const PARAMS = 1;

/**
 * Returns the program's buffers, and one more that outputs are read from.
 *
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 */
export async function createBuffers(device, program) {
  /** @type {GPUBuffer[]} */
  const buffers = [];
  const total = program.buffers.reduce((sum, bytes) => sum + bytes, 0);
  try {
    await checked(device, `a network of ${Math.ceil(total / 1e6)} MB`, () => {
      for (const [number, bytes] of program.buffers.entries()) {
        buffers.push(device.createBuffer({ size: inWords(bytes), usage: usageOf(number) }));
      }
      const size = outputPlaces(program).reduce((sum, { port }) => sum + inWords(port.place.bytes), 16);
      buffers.push(device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }));
    });
  } catch (problem) {
    for (const buffer of buffers) buffer.destroy();
    throw problem;
  }
  return buffers;
}

/** @param {number} number of a buffer */
function usageOf(number) {
  const use = number === PARAMS ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE;
  return use | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
}

/** @param {number} bytes */
function inWords(bytes) {
  return Math.ceil(bytes / 16) * 16;
}

/**
 * Returns where each output begins in the buffer that outputs are read from, where mapped ranges begin at
 * multiples of 8.
 *
 * @param {ProgramDescription} program
 */
export function outputPlaces(program) {
  let end = 0;
  return Object.entries(program.outputs).map(([name, port]) => {
    const start = end;
    end += inWords(port.place.bytes);
    return { name, port, start };
  });
}

/**
 * Compares a shard with its SHA-256.
 *
 * @param {Shard} shard
 * @param {ArrayBuffer} content
 */
export async function checkShard(shard, content) {
  if ((await sha256(content)) !== shard.sha256) throw damaged(`${shard.file} has another size or SHA-256`);
}

/**
 * Puts a shard into its buffer.
 *
 * @param {GPUDevice} device
 * @param {Shard} shard
 * @param {GPUBuffer[]} buffers
 * @param {ArrayBuffer} content
 */
export async function writeShard(device, shard, buffers, content) {
  const { buffer, offset, bytes } = shard.place;
  if (content.byteLength !== bytes) throw damaged(`${shard.file} has another size or SHA-256`);
  await checked(device, 'the weights', () => device.queue.writeBuffer(buffers[buffer], offset, content));
  await finished(device);
}
