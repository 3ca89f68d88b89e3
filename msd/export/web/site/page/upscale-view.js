import { find } from './element.js';
import { costOf, obstacleOf } from './optional.js';

/** @typedef {import('./protocol.js').Enlarging} Upscaler */

/** Whether a picture is enlarged. */
export class UpscaleView {
  #box = find(HTMLInputElement, 'upscale');
  #note = find(HTMLElement, 'upscale-note');
  /** @type {Upscaler} */
  #upscaler = null;

  /**
   * Offers a model's upscaler, and says what it costs, or why it cannot run here.
   *
   * @param {Upscaler} upscaler
   * @param {import('./optional.js').Optional} optional
   */
  offer(upscaler, optional) {
    this.#upscaler = upscaler;
    find(HTMLElement, 'upscale-field').hidden = !upscaler;
    if (!upscaler) return;
    find(HTMLElement, 'upscale-text').textContent = `Enlarge ×${upscaler.scale}`;
    const obstacle = obstacleOf(optional, upscaler.role);
    this.#box.disabled = Boolean(obstacle);
    this.#note.textContent = obstacle || costOf(optional, upscaler.role);
  }

  /**
   * Returns what a request says of it.
   *
   * @returns {{ upscale?: number }}
   */
  read() {
    const wanted = this.#box.checked && !this.#box.disabled;
    return this.#upscaler && wanted ? { upscale: this.#upscaler.scale } : {};
  }
}
