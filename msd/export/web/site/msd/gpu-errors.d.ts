/**
 * Listens to what a device refuses, until the function that it returns is called, which returns an error or
 * null. Unlike `uncapturederror`, of which nothing says whether the last has come, this misses none.
 *
 * @param {GPUDevice} device whose error scopes are a stack that all its users share
 * @returns {() => Promise<GPUError | null>}
 */
export function listen(device: GPUDevice): () => Promise<GPUError | null>;
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
export function checked<T>(device: GPUDevice, purpose: string, action: () => T): Promise<T>;
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
export function awaited<T>(device: GPUDevice, purpose: string, promise: Promise<T>): Promise<T>;
/**
 * Waits until the GPU has done all it was given: only then is what was on its way freed.
 *
 * @param {GPUDevice} device
 * @throws {MsdError} device-lost
 */
export function finished(device: GPUDevice): Promise<undefined>;
/**
 * Returns what to throw of a problem with a device, which is the loss of the device where that follows.
 *
 * @param {GPUDevice} device
 * @param {string} purpose
 * @param {unknown} problem
 * @returns {Promise<MsdError>} out-of-memory, device-lost, failed
 */
export function failure(device: GPUDevice, purpose: string, problem: unknown): Promise<MsdError>;
import { MsdError } from './errors.js';
