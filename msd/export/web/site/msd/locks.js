import { checkCancelled } from './errors.js';

/**
 * Returns what `work` returns, while no other tab has the lock, or none alone if it is `shared`.
 *
 * @template T
 * @param {string} name
 * @param {{ shared?: boolean, signal?: AbortSignal }} options
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 * @throws {import('./errors.js').MsdError} 'cancelled' while it waits for another tab
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
 * Does `work` if no tab has the lock, and returns whether it did.
 *
 * @param {string} name
 * @param {() => Promise<void>} work
 * @returns {Promise<boolean>}
 */
export async function ifUnlocked(name, work) {
  return navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
    if (lock) await work();
    return lock !== null;
  });
}
