import { confirmed } from './confirmation.js';
import { find } from './element.js';
import { size } from './quantity.js';

/** @typedef {import('./protocol.js').Space} Space */

/** How much of this device the model takes, and the button that deletes it. */
export class SpaceView {
  #line = find(HTMLElement, 'space');
  #delete = find(HTMLButtonElement, 'delete-model');
  #used = 0;

  /** @param {() => void} onDelete called once the user has confirmed */
  constructor(onDelete) {
    this.#delete.addEventListener('click', async () => {
      const text = `This frees ${size(this.#used)}. The pictures stay; new ones need the model again.`;
      if (await confirmed('Delete the model from this device?', text, 'Delete')) onDelete();
    });
  }

  /** @param {Space} space */
  show({ used, available }) {
    this.#used = used;
    this.#line.hidden = !used;
    const free = available === undefined ? '' : `, and ${size(available)} are free`;
    find(HTMLElement, 'space-text').textContent = `The model takes ${size(used)} on this device${free}.`;
  }

  /** @param {boolean} allowed */
  allow(allowed) {
    this.#delete.disabled = !allowed;
  }
}
