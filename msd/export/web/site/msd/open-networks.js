import { MsdError } from './errors.js';

/**
 * @typedef {import('./network.js').Network} Network
 * @typedef {(role: string, signal?: AbortSignal) => Promise<Network>} Open
 */

/** The networks that are in the GPU's memory at the moment. */
export class OpenNetworks {
  /** @type {Map<string, Promise<Network>>} */
  #opened = new Map();
  #open;

  /** @param {Open} open opens a network by its role */
  constructor(open) {
    this.#open = open;
  }

  /**
   * Returns a network, opened if it is not. Where memory does not suffice, the others are freed first.
   *
   * @param {string} role
   * @param {AbortSignal} [signal]
   * @returns {Promise<Network>}
   */
  async take(role, signal) {
    try {
      return await this.#begin(role, signal);
    } catch (problem) {
      const alone = this.#opened.size === 0;
      if (!(problem instanceof MsdError) || problem.code !== 'out-of-memory' || alone) throw problem;
      await this.releaseAll();
      return this.#begin(role, signal);
    }
  }

  /**
   * Begins to open a network that will be taken; what goes wrong meanwhile is told to whoever takes it.
   *
   * @param {string} role
   * @param {AbortSignal} [signal]
   */
  prefetch(role, signal) {
    this.#begin(role, signal).catch(() => {});
  }

  /**
   * Frees a network, if it is open.
   *
   * @param {string} role
   */
  async release(role) {
    const network = this.#opened.get(role);
    this.#opened.delete(role);
    await network?.then((each) => each.close());
  }

  /** Frees all networks. */
  async releaseAll() {
    await Promise.all([...this.#opened.keys()].map((role) => this.release(role)));
  }

  /**
   * @param {string} role
   * @param {AbortSignal} [signal]
   */
  #begin(role, signal) {
    const known = this.#opened.get(role);
    if (known) return known;
    const opening = this.#open(role, signal);
    this.#opened.set(role, opening);
    opening.catch(() => this.#opened.delete(role));
    return opening;
  }
}
