import { UNREADABLE, decoded, drawCropped } from './cropped.js';
import { drawEdges } from './edges.js';
import { button, create } from './element.js';
import { costOf, obstacleOf } from './optional.js';

/**
 * @typedef {import('./protocol.js').ModelFacts} ModelFacts
 * @typedef {import('./protocol.js').PictureRequest} PictureRequest
 */

const MOST_SCALE = '1000';

/** The picture by which one ControlNet steers, cut as the model will see it, and how much it counts. */
export class ControlView {
  #file;
  #canvas;
  #fromPhoto;
  #scale;
  #begin;
  #until;
  #tools;
  #note = create('p', { className: 'quiet' });
  /** @type {File | null} */
  #picture = null;
  #told = '';
  #control;
  #onChange;

  /**
   * @param {{ name: string, role: string }} control
   * @param {number} index of it among the model's
   * @param {{ width: number, height: number }} size of pictures
   * @param {() => void} onChange called when a picture is chosen or removed
   */
  constructor(control, index, { width, height }, onChange) {
    this.#control = control;
    this.#onChange = onChange;
    const id = `control-${index}`;
    const field = (/** @type {string} */ name, /** @type {Partial<HTMLInputElement>} */ settings) =>
      create('input', { id: `${id}-${name}`, ...settings });
    const part = { type: 'number', min: '0', max: '1', step: 'any', required: true };
    this.#file = field('file', { type: 'file', accept: 'image/*' });
    this.#scale = field('scale', { ...part, min: `-${MOST_SCALE}`, max: MOST_SCALE, value: '1' });
    this.#begin = field('begin', { ...part, value: '0' });
    this.#until = field('until', { ...part, value: '1' });
    this.#fromPhoto = field('from-photo', { type: 'checkbox' });
    const ariaLabel = `The picture for ${control.name}, as the model will see it`;
    this.#canvas = create('canvas', { width, height, ariaLabel, role: 'img' });
    const remove = button('Remove the picture', () => this.#remove());
    this.#tools = create(
      'div',
      { hidden: true },
      create('div', { className: 'easel' }, this.#canvas),
      create('label', { className: 'check' }, this.#fromPhoto, ' It is a photo: steer by its edges'),
      create('div', { className: 'row' }, ...this.#numbers(), remove),
    );
    this.element = create(
      'fieldset',
      {},
      create('legend', { textContent: control.name }),
      labelled('Picture', this.#file),
      this.#tools,
      this.#note,
    );
    this.#file.addEventListener('change', () => this.#choose(this.#file.files?.[0] ?? null));
    this.#fromPhoto.addEventListener('change', () => this.#choose(this.#picture));
    for (const each of [this.#begin, this.#until]) each.addEventListener('input', () => this.#validate());
    this.#validate();
  }

  /**
   * Says what the ControlNet costs, or why it cannot run here.
   *
   * @param {import('./optional.js').Optional} optional
   */
  tell(optional) {
    const obstacle = obstacleOf(optional, this.#control.role);
    this.#file.disabled = Boolean(obstacle);
    this.#told = obstacle || costOf(optional, this.#control.role);
    this.#note.textContent = this.#told;
  }

  /**
   * Returns the control, none where no picture is chosen.
   *
   * @returns {NonNullable<PictureRequest['controls']>}
   */
  read() {
    if (!this.#picture || this.#file.disabled) return [];
    const [scale, begin, until] = [this.#scale, this.#begin, this.#until].map(({ value }) => Number(value));
    const { checked: fromPhoto } = this.#fromPhoto;
    return [{ name: this.#control.name, image: this.#picture, fromPhoto, scale, begin, until }];
  }

  #numbers() {
    const named = { Scale: this.#scale, From: this.#begin, Until: this.#until };
    return Object.entries(named).map(([text, input]) => labelled(text, input));
  }

  /** @param {File | null} file */
  async #choose(file) {
    this.#picture = file;
    const bitmap = await decoded(file);
    if (this.#picture !== file) return bitmap?.close();
    if (bitmap) drawCropped(this.#canvas, bitmap);
    else this.#picture = null;
    if (bitmap && this.#fromPhoto.checked) drawEdges(this.#canvas);
    const refusal = file && !bitmap ? UNREADABLE : '';
    this.#file.setCustomValidity(refusal);
    this.#note.textContent = refusal || this.#told;
    this.#tools.hidden = !this.#picture;
    this.#validate();
    this.#onChange();
  }

  #remove() {
    this.#file.value = '';
    this.#choose(null);
    this.#file.focus();
  }

  /** Numbers that nobody sees keep no picture from being generated. */
  #validate() {
    for (const input of [this.#scale, this.#begin, this.#until]) input.disabled = !this.#picture;
    const ordered = Number(this.#begin.value) < Number(this.#until.value);
    this.#until.setCustomValidity(ordered ? '' : 'It should end after it begins.');
  }
}

/**
 * @param {string} text
 * @param {HTMLInputElement} input
 */
function labelled(text, input) {
  return create('div', {}, create('label', { htmlFor: input.id, textContent: text }), input);
}
