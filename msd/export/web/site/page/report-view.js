import { announce, button, create } from './element.js';
import { adviceFor } from './advice.js';
import { progressFraction, progressText } from './progress-text.js';

/**
 * @typedef {import('./protocol.js').Progress} Progress
 * @typedef {import('../msd/errors.js').MsdError} MsdError
 * @typedef {import('./advice.js').Way} Way
 */

/** Quarters of what is counted are announced, not every step. */
const QUARTERS = 4;

/** Says what is being done, or what went wrong and how to go on. */
export class ReportView {
  #text = create('p', { className: 'numbers' });
  #bar = create('progress', { max: 1, ariaLabel: 'Progress' });
  #cancel;
  #progress;
  #problem = create('div', { className: 'problem', hidden: true });
  #announced = '';
  #container;

  /**
   * @param {HTMLElement} container
   * @param {() => void} onCancel
   */
  constructor(container, onCancel) {
    this.#container = container;
    this.#cancel = button('Cancel', onCancel);
    this.#progress = create(
      'div',
      { className: 'progress', hidden: true },
      this.#text,
      this.#cancel,
      this.#bar,
    );
    container.append(this.#progress, this.#problem);
  }

  /**
   * Begins anew, with what is done first.
   *
   * @param {string} text
   */
  begin(text) {
    this.clear();
    this.#progress.hidden = false;
    this.#cancel.disabled = false;
    this.#write(text, null);
    announce(`${text}.`);
  }

  /** @param {Progress} progress */
  show(progress) {
    const isThere = progress.stage === 'fetching' && progress.bytes === progress.total;
    if (this.#cancel.disabled || isThere) return;
    const [text, fraction] = [progressText(progress), progressFraction(progress)];
    this.#write(text, fraction);
    const network = 'network' in progress ? progress.network : '';
    const point = `${progress.stage} ${network} ${Math.floor((fraction ?? 0) * QUARTERS)}`;
    if (point !== this.#announced) announce(`${text}.`);
    this.#announced = point;
  }

  /** Whether the focus is here. */
  get focused() {
    return this.#container.contains(document.activeElement);
  }

  /** Moves the focus to the button that cancels. */
  focus() {
    this.#cancel.focus({ preventScroll: true });
  }

  /** Says that it will end as soon as the GPU lets go. */
  cancelling() {
    this.#cancel.disabled = true;
    this.#write('Cancelling', null);
    announce('Cancelling.');
  }

  /**
   * Says what went wrong, and offers ways on.
   *
   * @param {MsdError} problem
   * @param {Partial<Record<Way, () => void>>} ways those that are open; others are not offered
   */
  fail(problem, ways) {
    const advice = adviceFor(problem.code);
    const offered = advice.ways.flatMap(([way, text]) => (ways[way] ? [button(text, ways[way])] : []));
    this.clear();
    this.#problem.replaceChildren(
      create('h2', { textContent: advice.title }),
      create('p', { textContent: problem.message }),
      ...advice.sentences.map((textContent) => create('p', { textContent })),
      create('div', { className: 'actions', hidden: !offered.length }, ...offered),
    );
    this.#problem.hidden = false;
    this.#problem.scrollIntoView({ block: 'nearest' });
    announce([`${advice.title}.`, problem.message, ...advice.sentences].join(' '));
  }

  /** Shows nothing. */
  clear() {
    this.#announced = '';
    this.#progress.hidden = true;
    this.#problem.hidden = true;
    this.#problem.replaceChildren();
  }

  /**
   * @param {string} text
   * @param {number | null} fraction
   */
  #write(text, fraction) {
    this.#text.textContent = text;
    if (fraction === null) this.#bar.removeAttribute('value');
    else this.#bar.value = fraction;
  }
}
