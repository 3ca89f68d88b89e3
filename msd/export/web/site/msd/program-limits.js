import { MsdError } from './errors.js';

/** @typedef {import('./program-description.js').ProgramDescription} ProgramDescription */

/**
 * Compares what a program needs with what a device was opened with.
 *
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 * @throws {MsdError} too-small
 */
export function requireLimits(device, program) {
  if (program.half && !device.features.has('shader-f16')) {
    throw new MsdError('too-small', 'The network computes in float16, and this GPU has no shader-f16.');
  }
  const storage = program.steps.flatMap(({ pipeline, places }) =>
    places.filter((_, i) => program.pipelines[pipeline].bindings[i] !== 'uniform'),
  );
  const binding = largest(storage.map(({ bytes }) => bytes));
  requireLimit(device, 'maxBufferSize', largest(program.buffers));
  requireLimit(device, 'maxStorageBufferBindingSize', binding);
}

/**
 * @param {GPUDevice} device
 * @param {'maxBufferSize' | 'maxStorageBufferBindingSize'} name
 * @param {number} needed
 */
function requireLimit(device, name, needed) {
  const found = device.limits[name];
  if (needed <= found) return;
  throw new MsdError('too-small', `The network needs ${name} of ${needed}; this GPU has ${found}.`);
}

/** @param {number[]} values */
function largest(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}
