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
