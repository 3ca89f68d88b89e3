/**
 * Waits, unless it is cancelled meanwhile.
 *
 * @param {number} milliseconds
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<void>}
 * @throws {import('./errors.js').MsdError} 'cancelled'
 */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void>;
/** What ended an attempt, which a later one may get past. */
export class Interruption extends Error {
}
/** One request to a server, which ends when no byte comes for a while, and with the signal of the caller. */
export class Attempt {
    /**
     * @param {AbortSignal | undefined} caller
     * @param {number} stall  milliseconds without a byte
     */
    constructor(caller: AbortSignal | undefined, stall: number);
    /** The signal for fetch. */
    get signal(): AbortSignal;
    /**
     * Returns what `work` returns.
     *
     * @template T
     * @param {() => Promise<T>} work
     * @returns {Promise<T>}
     * @throws {Interruption} where the network fails
     * @throws {import('./errors.js').MsdError} 'cancelled'
     */
    wait<T>(work: () => Promise<T>): Promise<T>;
    /** Closes the connection. */
    end(): void;
    #private;
}
