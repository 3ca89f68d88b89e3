import { MsdError } from '../msd/errors.js';

/**
 * @typedef {import('./protocol.js').Call} Call
 * @typedef {import('./protocol.js').Answer} Answer
 * @typedef {import('./protocol.js').Progress} Progress
 *
 * @typedef {object} Waiting
 * @property {(result: any) => void} resolve
 * @property {(problem: MsdError) => void} reject
 * @property {(progress: Progress) => void} onProgress
 */

/** Asks the worker, which is started with the first question, and again after it has ended. */
export class WorkerClient {
  /** @type {Worker | null} */
  #worker = null;
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  #last = 0;
  #url;

  /** @param {URL} url of the worker's module */
  constructor(url) {
    this.#url = url;
  }

  /**
   * Returns what the worker answers; throws the MsdError that it answers instead, 'cancelled' once the
   * signal aborts.
   *
   * @param {Call} call
   * @param {unknown} [args]
   * @param {{ signal?: AbortSignal, onProgress?: (progress: Progress) => void }} [options]
   * @returns {Promise<any>}
   */
  call(call, args, { signal, onProgress = () => {} } = {}) {
    if (signal?.aborted) return Promise.reject(cancelled());
    const id = ++this.#last;
    const worker = this.#started();
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, onProgress }));
    worker.postMessage({ id, call, args });
    signal?.addEventListener('abort', () => {
      if (this.#waiting.has(id)) worker.postMessage({ id: ++this.#last, call: 'cancel', args: id });
    });
    return answer;
  }

  /** Ends the worker, and with it all that it holds on the GPU; the next question starts a new one. */
  restart() {
    this.#end(cancelled());
  }

  #started() {
    if (this.#worker) return this.#worker;
    const worker = new Worker(this.#url, { type: 'module' });
    worker.addEventListener('message', ({ data }) => this.#answered(data));
    worker.addEventListener('error', (event) => {
      event.preventDefault();
      this.#end(
        new MsdError(
          'failed',
          `The part of this page that computes has ended: ${event.message || 'no reason given'}.`,
        ),
      );
    });
    this.#worker = worker;
    return worker;
  }

  /** @param {Answer} answer */
  #answered({ id, progress, result, error }) {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    if (progress) return waiting.onProgress(progress);
    this.#waiting.delete(id);
    if (error) waiting.reject(new MsdError(error.code, error.message));
    else waiting.resolve(result);
  }

  /** @param {MsdError} problem */
  #end(problem) {
    this.#worker?.terminate();
    this.#worker = null;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(problem);
  }
}

function cancelled() {
  return new MsdError('cancelled', 'It was cancelled.');
}
