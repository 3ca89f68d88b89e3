import { MsdError } from '../msd/errors.js';
import { announce } from './element.js';
import { keepAwake } from './wake-lock.js';

/**
 * @typedef {import('./advice.js').Way} Way
 * @typedef {import('./protocol.js').Call} Call
 * @typedef {import('./protocol.js').Progress} Progress
 * @typedef {import('./report-view.js').ReportView} ReportView
 * @typedef {import('./worker-client.js').WorkerClient} WorkerClient
 *
 * @typedef {object} Task
 * @property {ReportView} report where it is told
 * @property {string} opening what is said at once
 * @property {Call} call
 * @property {unknown} [args]
 * @property {(progress: Progress) => void} [onProgress]
 * @property {() => void} again begins the same once more
 */

/** After these the GPU's state is unknown, so that a new worker begins from nothing. */
const FATAL = new Set(['device-lost', 'out-of-memory', 'failed']);

/** What the worker does for the user: one task at a time, told in a report, which a button or Esc cancels. */
export class Work {
  /** @type {AbortController | null} */
  #abort = null;
  /** @type {ReportView | null} */
  #report = null;
  /** @type {Element | null} */
  #pressed = null;
  #client;
  #ways;
  #onChange;

  /**
   * @param {WorkerClient} client
   * @param {(task: Task) => Partial<Record<Way, () => void>>} ways the ways on after an error
   * @param {() => void} onChange called when work begins and ends
   */
  constructor(client, ways, onChange) {
    this.#client = client;
    this.#ways = ways;
    this.#onChange = onChange;
  }

  /** Whether something is being done. */
  get busy() {
    return this.#abort !== null;
  }

  /**
   * Returns the result of a task; null where it was cancelled or failed, which the report tells.
   *
   * @param {Task} task
   * @returns {Promise<any>}
   */
  async run(task) {
    if (this.#abort) return null;
    const { signal } = this.#begin(task);
    const awake = keepAwake();
    try {
      const onProgress = (/** @type {Progress} */ progress) => {
        task.report.show(progress);
        task.onProgress?.(progress);
      };
      const result = await this.#client.call(task.call, task.args, { signal, onProgress });
      this.#end(() => task.report.clear());
      return result;
    } catch (problem) {
      this.#end(() => this.#fail(task, problem));
      return null;
    } finally {
      (await awake)();
    }
  }

  /** Ends what is being done, as soon as the GPU lets go. */
  cancel() {
    if (!this.#abort || this.#abort.signal.aborted) return;
    this.#report?.cancelling();
    this.#abort.abort();
  }

  /** @param {Task} task */
  #begin({ report, opening }) {
    const abort = new AbortController();
    this.#abort = abort;
    this.#report = report;
    report.begin(opening);
    this.#pressed = document.activeElement;
    // What was pressed is disabled now, and would lose the focus to nothing.
    if (this.#pressed instanceof HTMLButtonElement) report.focus();
    this.#onChange();
    return abort;
  }

  /** @param {() => void} tell */
  #end(tell) {
    const focused = this.#report?.focused;
    this.#abort = null;
    this.#report = null;
    tell();
    this.#onChange();
    if (focused && this.#pressed instanceof HTMLElement) this.#pressed.focus({ preventScroll: true });
  }

  /**
   * @param {Task} task
   * @param {unknown} problem
   */
  #fail(task, problem) {
    const error = problem instanceof MsdError ? problem : new MsdError('failed', `${problem}`, problem);
    if (FATAL.has(error.code)) this.#client.restart();
    if (error.code !== 'cancelled') return task.report.fail(error, this.#ways(task));
    task.report.clear();
    announce('It was cancelled.');
  }
}
