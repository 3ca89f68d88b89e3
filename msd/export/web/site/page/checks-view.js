import { checks, missing } from './checks.js';
import { create, find } from './element.js';
import { megabytes } from './quantity.js';

/** @typedef {import('./protocol.js').Inspection} Inspection */

const CLASSES = { yes: '', perhaps: 'warns', no: 'fails' };

/** What this device has of what the model needs, and the button that fetches the model. */
export class ChecksView {
  #section = find(HTMLElement, 'checks');
  #fetch = find(HTMLButtonElement, 'fetch');
  #again = find(HTMLButtonElement, 'check-again');

  /**
   * @param {() => void} onFetch
   * @param {() => void} onAgain
   */
  constructor(onFetch, onAgain) {
    this.#fetch.addEventListener('click', onFetch);
    this.#again.addEventListener('click', onAgain);
  }

  /**
   * Shows the checks where something is missing; hides them where all is there.
   *
   * @param {Inspection} inspection
   */
  show(inspection) {
    const deviceMemory = /** @type {{ deviceMemory?: number }} */ (navigator).deviceMemory;
    const found = checks(inspection, deviceMemory);
    const fails = found.some(({ holds }) => holds === 'no');
    const [needed, { there }] = [missing(inspection), inspection.bytes];
    this.#section.hidden = !needed && !fails;
    find(HTMLElement, 'checks-list').replaceChildren(
      ...found.map(({ holds, sentence }) =>
        create('li', { className: CLASSES[holds] }, create('span', { textContent: sentence })),
      ),
    );
    find(HTMLElement, 'checks-note').textContent =
      fails || !needed
        ? ''
        : 'The model is fetched once and kept on this device, so that the page works without a connection.';
    const what = there ? 'the rest of the model' : 'the model';
    this.#fetch.textContent = `Fetch ${what} (${megabytes(needed)} MB)`;
    this.#fetch.hidden = fails || !needed;
    this.#again.hidden = !fails;
  }

  /** @param {boolean} allowed */
  allow(allowed) {
    this.#fetch.disabled = !allowed;
  }
}
