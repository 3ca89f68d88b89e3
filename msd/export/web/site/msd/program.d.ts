/**
 * Opens a network that msd.webgpu compiled: compiles its shaders, and puts its weights into the GPU's memory,
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
export function openProgram(device: GPUDevice, description: unknown, readShard: (index: number) => Promise<ArrayBuffer>, signal?: AbortSignal, verified?: boolean): Promise<Network>;
export type Network = import("./network.js").Network;
export type Tensors = import("./network.js").Tensors;
export type ProgramDescription = import("./program-description.js").ProgramDescription;
export type Dispatch = import("./program-dispatches.js").Dispatch;
