import { confirmed } from './confirmation.js';
import { announce, create, find } from './element.js';

/**
 * @typedef {import('./history.js').History} History
 * @typedef {import('./history.js').Kept} Kept
 */

/** The pictures that are kept, as a list; a press shows one. */
export class HistoryView {
  #section = find(HTMLElement, 'history');
  #list = find(HTMLUListElement, 'history-list');
  #deleteAll = find(HTMLButtonElement, 'delete-all');
  /** @type {string[]} */
  #addresses = [];
  /** @type {number | undefined} */
  #current;
  #history;
  #onShow;

  /**
   * @param {History} history
   * @param {(picture: Kept | null) => boolean} onShow returns whether it is shown; with null where all have
   *   been deleted
   */
  constructor(history, onShow) {
    this.#history = history;
    this.#onShow = onShow;
    this.#deleteAll.addEventListener('click', () => this.#clear());
  }

  /**
   * Shows what is kept; `current` is the id of the picture that is on the stage.
   *
   * @param {number} [current]
   */
  async refresh(current = this.#current) {
    this.#current = current;
    const pictures = await this.#history.all();
    this.#addresses.forEach((address) => URL.revokeObjectURL(address));
    this.#addresses = pictures.map(({ thumbnail }) => URL.createObjectURL(thumbnail));
    this.#list.replaceChildren(
      ...pictures.map((picture, index) => this.#item(picture, this.#addresses[index])),
    );
    this.#section.hidden = !pictures.length;
  }

  /** Leads to where pictures can be deleted. */
  makeRoom() {
    this.#section.scrollIntoView();
    this.#deleteAll.focus();
  }

  /** Whether there is nothing to delete. */
  get empty() {
    return this.#section.hidden;
  }

  /**
   * @param {Kept} picture
   * @param {string} src
   */
  #item(picture, src) {
    const { prompt, seed } = picture.settings;
    const shown = create(
      'button',
      { type: 'button' },
      create('img', { src, alt: '', width: picture.width, height: picture.height, loading: 'lazy' }),
      create('span', { textContent: prompt }),
      create('span', { className: 'quiet', textContent: `Seed ${seed}` }),
    );
    if (picture.id === this.#current) shown.setAttribute('aria-current', 'true');
    shown.addEventListener('click', () => this.#open(picture, shown));
    return create('li', {}, shown);
  }

  /**
   * @param {Kept} picture
   * @param {HTMLButtonElement} pressed
   */
  #open(picture, pressed) {
    if (!this.#onShow(picture)) return;
    this.#current = picture.id;
    this.#list.querySelector('[aria-current]')?.removeAttribute('aria-current');
    pressed.setAttribute('aria-current', 'true');
  }

  async #clear() {
    const sure = await confirmed(
      'Delete all pictures?',
      'They are kept nowhere else, unless you have saved them.',
      'Delete all',
    );
    if (!sure) return;
    await this.#history.clear();
    await this.refresh();
    this.#onShow(null);
    announce('All pictures have been deleted.');
  }
}
