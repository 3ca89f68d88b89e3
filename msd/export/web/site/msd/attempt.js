import { checkCancelled } from './errors.js';

/** What ended an attempt, which a later one may get past. */
export class Interruption extends Error {}

/** One request to a server, which ends when no byte comes for a while, and with the signal of the caller. */
export class Attempt {
  #controller = new AbortController();
  #caller;
  #stall;
  #end = () => this.#controller.abort();

  /**
   * @param {AbortSignal | undefined} caller
   * @param {number} stall  milliseconds without a byte
   */
  constructor(caller, stall) {
    this.#caller = caller;
    this.#stall = stall;
    caller?.addEventListener('abort', this.#end);
  }

  /** The signal for fetch. */
  get signal() {
    return this.#controller.signal;
  }

  /**
   * Returns what `work` returns.
   *
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   * @throws {Interruption} where the network fails
   * @throws {import('./errors.js').MsdError} 'cancelled'
   */
  async wait(work) {
    const timer = setTimeout(this.#end, this.#stall);
    try {
      return await work();
    } catch (problem) {
      checkCancelled(this.#caller);
      const why = this.signal.aborted ? 'it sends nothing' : 'the connection was lost';
      throw new Interruption(why, { cause: problem });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes the connection. */
  end() {
    this.#caller?.removeEventListener('abort', this.#end);
    this.#controller.abort();
  }
}

/**
 * Waits, unless it is cancelled meanwhile.
 *
 * @param {number} milliseconds
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<void>}
 * @throws {import('./errors.js').MsdError} 'cancelled'
 */
export async function pause(milliseconds, signal) {
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener('abort', () => { clearTimeout(timer); resolve(undefined); }, { once: true });
    if (signal?.aborted) resolve(undefined);
  });
  checkCancelled(signal);
}
