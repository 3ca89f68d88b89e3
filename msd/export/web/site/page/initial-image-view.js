import { UNREADABLE, decoded, drawCropped } from './cropped.js';
import { create, find } from './element.js';
import { MaskView } from './mask-view.js';

/**
 * @typedef {import('./protocol.js').ModelFacts} ModelFacts
 * @typedef {import('./protocol.js').PictureRequest} PictureRequest
 */

/** As in diffusers, where none is chosen: of an image, and of an image with a mask. */
const [STRENGTH, REPAINTING_STRENGTH] = ['0.8', '1'];

/** The image that a picture begins from, cut as the model will see it, and what of it is repainted. */
export class InitialImageView {
  #details = find(HTMLDetailsElement, 'initial');
  #file = find(HTMLInputElement, 'image-file');
  #tools = find(HTMLElement, 'image-tools');
  #canvas = find(HTMLCanvasElement, 'image-canvas');
  #repaint = find(HTMLInputElement, 'repaint');
  #strength = find(HTMLSelectElement, 'strength');
  #mask = new MaskView(() => this.#validate());
  /** @type {ModelFacts | null} */
  #facts = null;
  /** @type {File | null} */
  #image = null;

  constructor() {
    this.#file.addEventListener('change', () => this.#choose(this.#file.files?.[0] ?? null));
    this.#repaint.addEventListener('change', () => this.#show());
    find(HTMLButtonElement, 'remove-image').addEventListener('click', () => {
      this.#file.value = '';
      this.#choose(null);
      this.#file.focus();
    });
  }

  /**
   * Offers what a model can do with an image.
   *
   * @param {ModelFacts} facts
   */
  offer(facts) {
    this.#facts = facts;
    this.#details.hidden = !facts.image;
    this.#canvas.width = facts.width;
    this.#canvas.height = facts.height;
    this.#mask.resize(facts.width, facts.height);
    if (facts.image?.required) this.#details.open = true;
    if (facts.image?.inpaints) {
      this.#repaint.checked = true;
      find(HTMLElement, 'repaint-field').hidden = true;
    }
    this.#show();
  }

  /**
   * Offers the strengths that there are for a number of steps.
   *
   * @param {number} steps
   */
  setSteps(steps) {
    const strengths = (this.#facts?.image?.strengths[steps] ?? []).map(String);
    const options = [...this.#strength.options].map((option) => option.value);
    if (strengths.join() === options.join()) return;
    const chosen = this.#strength.value;
    this.#strength.replaceChildren(
      ...strengths.map((value) => create('option', { value, textContent: percent(value) })),
    );
    this.#select(strengths.includes(chosen) ? chosen : this.#usual());
  }

  /**
   * Returns what a request says of the image; nothing where there is none.
   *
   * @returns {Pick<PictureRequest, 'image' | 'mask' | 'strength'>}
   */
  read() {
    if (!this.#image) return {};
    const { value } = this.#strength;
    const chosen = { image: this.#image, ...(value && { strength: Number(value) }) };
    return this.#repaint.checked ? { ...chosen, mask: this.#mask.pixels() } : chosen;
  }

  /** @param {File | null} file */
  async #choose(file) {
    this.#image = file;
    this.#mask.clear();
    const bitmap = await decoded(file);
    if (this.#image !== file) return bitmap?.close();
    if (bitmap) drawCropped(this.#canvas, bitmap);
    else this.#image = null;
    this.#show();
    if (file && !this.#image)
      this.#refuse(UNREADABLE);
  }

  #show() {
    this.#tools.hidden = !this.#image;
    this.#mask.show(this.#repaint.checked);
    this.#select(this.#usual());
    this.#validate();
  }

  #usual() {
    return this.#repaint.checked ? REPAINTING_STRENGTH : STRENGTH;
  }

  /** @param {string} strength */
  #select(strength) {
    const known = [...this.#strength.options].some((option) => option.value === strength);
    this.#strength.selectedIndex = known
      ? [...this.#strength.options].findIndex((option) => option.value === strength)
      : this.#strength.options.length - 1;
  }

  #validate() {
    const { required, inpaints } = this.#facts?.image ?? {};
    const needed = required && !this.#image;
    const unmarked = this.#image && this.#repaint.checked && this.#mask.empty;
    this.#refuse(
      needed
        ? inpaints
          ? 'This model repaints a part of an image: choose an image.'
          : 'This model reads an image beside the prompt: choose one.'
        : unmarked
          ? 'Mark what to repaint in the image.'
          : '',
    );
  }

  /** @param {string} sentence why it cannot go on, empty where it can */
  #refuse(sentence) {
    this.#file.setCustomValidity(sentence);
    find(HTMLElement, 'image-note').textContent = sentence;
  }
}

/** @param {string} strength */
function percent(strength) {
  return `${Math.round(100 * Number(strength))} %`;
}
