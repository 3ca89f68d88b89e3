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
export function withLock<T>(name: string, { shared, signal }: {
    shared?: boolean;
    signal?: AbortSignal;
}, work: () => Promise<T>): Promise<T>;
/**
 * Returns what `work` returns, if no tab has the lock.
 *
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 * @throws {MsdError} 'failed' where one has
 */
export function withFreeLock<T>(name: string, work: () => Promise<T>): Promise<T>;
