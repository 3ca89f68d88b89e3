/**
 * Returns the program's buffers, and one more that outputs are read from.
 *
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 */
export function createBuffers(device: GPUDevice, program: ProgramDescription): Promise<GPUBuffer[]>;
/**
 * Returns where each output begins in the buffer that outputs are read from, where mapped ranges begin at
 * multiples of 8.
 *
 * @param {ProgramDescription} program
 */
export function outputPlaces(program: ProgramDescription): {
    name: string;
    port: import("./program-description.js").Port;
    start: number;
}[];
/**
 * Compares a shard with its SHA-256.
 *
 * @param {Shard} shard
 * @param {ArrayBuffer} content
 */
export function checkShard(shard: Shard, content: ArrayBuffer): Promise<void>;
/**
 * Puts a shard into its buffer.
 *
 * @param {GPUDevice} device
 * @param {Shard} shard
 * @param {GPUBuffer[]} buffers
 * @param {ArrayBuffer} content
 */
export function writeShard(device: GPUDevice, shard: Shard, buffers: GPUBuffer[], content: ArrayBuffer): Promise<void>;
/**
 * @typedef {import('./program-description.js').ProgramDescription} ProgramDescription
 * @typedef {import('./program-description.js').Shard} Shard
 */
/** The number of the buffer of parameters. */
export const PARAMS: 1;
export type ProgramDescription = import("./program-description.js").ProgramDescription;
export type Shard = import("./program-description.js").Shard;
