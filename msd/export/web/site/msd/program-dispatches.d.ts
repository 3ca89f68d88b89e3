/**
 * @typedef {import('./program-description.js').ProgramDescription} ProgramDescription
 * @typedef {{ pipeline: GPUComputePipeline, group: GPUBindGroup, groups: [number, number, number] }} Dispatch
 */
/**
 * Compiles a program's shaders, and binds its buffers to them.
 *
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 * @param {GPUBuffer[]} buffers
 * @param {AbortSignal} [signal]
 * @returns {Promise<Dispatch[]>}
 */
export function createDispatches(device: GPUDevice, program: ProgramDescription, buffers: GPUBuffer[], signal?: AbortSignal): Promise<Dispatch[]>;
export type ProgramDescription = import("./program-description.js").ProgramDescription;
export type Dispatch = {
    pipeline: GPUComputePipeline;
    group: GPUBindGroup;
    groups: [number, number, number];
};
