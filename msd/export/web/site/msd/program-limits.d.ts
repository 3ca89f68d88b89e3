/** @typedef {import('./program-description.js').ProgramDescription} ProgramDescription */
/**
 * Compares what a program needs with what a device was opened with.
 *
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 * @throws {MsdError} too-small
 */
export function requireLimits(device: GPUDevice, program: ProgramDescription): void;
export type ProgramDescription = import("./program-description.js").ProgramDescription;
