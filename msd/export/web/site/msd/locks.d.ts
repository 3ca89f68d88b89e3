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
export function withLock<T>(name: string, { shared, signal }: {
    shared?: boolean;
    signal?: AbortSignal;
}, work: () => Promise<T>): Promise<T>;
/**
 * Does `work` if no tab has the lock, and returns whether it did.
 *
 * @param {string} name
 * @param {() => Promise<void>} work
 * @returns {Promise<boolean>}
 */
export function ifUnlocked(name: string, work: () => Promise<void>): Promise<boolean>;
