import { MsdError, checkCancelled } from './errors.js';

/**
 * Returns what `work` returns, while no other tab has the lock, or none alone if it is `shared`.
 *
 * @template T
 * @param {string} name
 * @param {{ shared?: boolean, signal?: AbortSignal }} options
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 * @throws {MsdError} 'cancelled' while it waits for another tab
 */
export async function withLock(name, { shared = false, signal }, work) {
  checkCancelled(signal);
  let begun = false;
  const begin = () => {
    begun = true;
    return work();
  };
  try {
    return await navigator.locks.request(name, { mode: shared ? 'shared' : 'exclusive', signal }, begin);
  } catch (problem) {
    if (!begun) checkCancelled(signal);
    throw problem;
  }
}

/**
 * Returns what `work` returns, if no tab has the lock.
 *
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 * @throws {MsdError} 'failed' where one has
 */
export async function withFreeLock(name, work) {
  return navigator.locks.request(name, { ifAvailable: true }, (lock) => {
    if (lock) return work();
    throw new MsdError('failed', 'The model is being fetched, perhaps in another tab; end that first.');
  });
}
