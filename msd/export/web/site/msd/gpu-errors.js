import { MsdError } from './errors.js';
import { wordsOf } from './gpu.js';

/** @type {GPUErrorFilter[]} */
const FILTERS = ['validation', 'out-of-memory', 'internal'];

/** The milliseconds after a failure within which a browser says that the device was lost. */
const LOST_WITHIN = 250;

/**
 * Listens to what a device refuses, until the function that it returns is called, which returns an error or
 * null. Unlike `uncapturederror`, of which nothing says whether the last has come, this misses none.
 *
 * @param {GPUDevice} device whose error scopes are a stack that all its users share
 * @returns {() => Promise<GPUError | null>}
 */
export function listen(device) {
  for (const filter of FILTERS) device.pushErrorScope(filter);
  return async () => {
    const scopes = FILTERS.map(() => device.popErrorScope().catch(() => null));
    const errors = await Promise.all(scopes);
    return errors.find((error) => error instanceof GPUOutOfMemoryError) ?? errors.find(Boolean) ?? null;
  };
}

/**
 * Does something with a device, and waits until the GPU's process has checked it.
 *
 * @template T
 * @param {GPUDevice} device
 * @param {string} purpose what needs it, for messages: 'the network'
 * @param {() => T} action synchronous, as error scopes are a stack that all users of a device share
 * @returns {Promise<T>}
 * @throws {MsdError} out-of-memory, device-lost, failed
 */
export async function checked(device, purpose, action) {
  const heard = listen(device);
  let result, thrown;
  try {
    result = action();
  } catch (problem) {
    thrown = problem;
  }
  const error = await heard();
  if (thrown !== undefined) throw await failure(device, purpose, thrown);
  if (error) throw await failure(device, purpose, error);
  return /** @type {T} */ (result);
}

/**
 * Waits for something of a device.
 *
 * @template T
 * @param {GPUDevice} device
 * @param {string} purpose
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 * @throws {MsdError} out-of-memory, device-lost, failed
 */
export async function awaited(device, purpose, promise) {
  try {
    return await Promise.race([promise, lost(device)]);
  } catch (problem) {
    throw await failure(device, purpose, problem);
  }
}

/**
 * Waits until the GPU has done all it was given: only then is what was on its way freed.
 *
 * @param {GPUDevice} device
 * @throws {MsdError} device-lost
 */
export function finished(device) {
  return awaited(device, 'the network', device.queue.onSubmittedWorkDone());
}

/** @type {WeakMap<GPUDevice, Promise<never>>} */
const losses = new WeakMap();

/**
 * Rejects once a device is lost.
 *
 * @param {GPUDevice} device
 * @returns {Promise<never>}
 */
function lost(device) {
  const known = losses.get(device);
  if (known) return known;
  const loss = device.lost.then((info) => Promise.reject(lossOf(info)));
  loss.catch(() => undefined);
  losses.set(device, loss);
  return loss;
}

/** @param {GPUDeviceLostInfo} info */
function lossOf(info) {
  const why = oneLine(info.message || info.reason || 'it does not say why');
  return new MsdError(
    'device-lost',
    `The browser lost the GPU: ${why}. Close other pages and apps that use it, and try again.`,
  );
}

/**
 * Returns what to throw of a problem with a device, which is the loss of the device where that follows.
 *
 * @param {GPUDevice} device
 * @param {string} purpose
 * @param {unknown} problem
 * @returns {Promise<MsdError>} out-of-memory, device-lost, failed
 */
export async function failure(device, purpose, problem) {
  if (problem instanceof MsdError) return problem;
  const late = new Promise((resolve) => setTimeout(resolve, LOST_WITHIN));
  const info = await Promise.race([device.lost, late]);
  if (info) return lossOf(/** @type {GPUDeviceLostInfo} */ (info));
  if (problem instanceof GPUOutOfMemoryError || problem instanceof RangeError) {
    return new MsdError('out-of-memory', `The GPU has too little memory for ${purpose}.`, problem);
  }
  const words = problem instanceof GPUError ? problem.message : wordsOf(problem);
  return new MsdError('failed', `WebGPU refuses ${purpose}: ${oneLine(words)}.`, problem);
}

/** @param {string} words */
function oneLine(words) {
  return words.replaceAll(/\s+/g, ' ').replace(/[. ]+$/, '');
}
