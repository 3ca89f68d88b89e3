import { ControlView } from './control-view.js';
import { find } from './element.js';

/**
 * @typedef {import('./protocol.js').ModelFacts} ModelFacts
 * @typedef {import('./protocol.js').PictureRequest} PictureRequest
 */

/** The pictures by which a model's ControlNets steer. */
export class ControlsView {
  #guess = find(HTMLInputElement, 'guess');
  /** @type {ControlView[]} */
  #views = [];
  #details = find(HTMLDetailsElement, 'controls');

  constructor() {
    // A browser cannot show what is wrong in what is folded away.
    this.#details.addEventListener('invalid', () => (this.#details.open = true), { capture: true });
  }

  /**
   * Offers a model's ControlNets, and says what they cost, or why they cannot run here.
   *
   * @param {ModelFacts} facts
   * @param {import('./optional.js').Optional} optional
   */
  offer(facts, optional) {
    this.#details.hidden = !facts.controls.length;
    if (!this.#views.length) {
      const onChange = () => this.#show();
      this.#views = facts.controls.map((control, i) => new ControlView(control, i, facts, onChange));
      find(HTMLElement, 'controls-list').append(...this.#views.map(({ element }) => element));
    }
    for (const view of this.#views) view.tell(optional);
    this.#show();
  }

  /**
   * Returns what a request says of them; nothing where no picture is chosen.
   *
   * @returns {Pick<PictureRequest, 'controls' | 'guess'>}
   */
  read() {
    const controls = this.#views.flatMap((view) => view.read());
    if (!controls.length) return {};
    return this.#guess.checked ? { controls, guess: true } : { controls };
  }

  #show() {
    find(HTMLElement, 'guess-field').hidden = !this.#views.some((view) => view.read().length);
  }
}
