import { find } from './element.js';
import { Mask } from './mask.js';

const MARK = [255, 64, 96, 255];
const ARROWS = new Map([
  ['ArrowLeft', [-1, 0]],
  ['ArrowRight', [1, 0]],
  ['ArrowUp', [0, -1]],
  ['ArrowDown', [0, 1]],
]);

/** Marks painted over an image, with a finger, a mouse or the keyboard. */
export class MaskView {
  #canvas = find(HTMLCanvasElement, 'mask-canvas');
  #tools = find(HTMLElement, 'brush-tools');
  #brush = find(HTMLInputElement, 'brush');
  #erase = find(HTMLInputElement, 'erase');
  #mask = new Mask(1, 1);
  /** @type {[number, number]} */
  #at = [0, 0];
  #onChange;

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
    this.#canvas.addEventListener('pointerdown', (event) => this.#press(event));
    this.#canvas.addEventListener('pointermove', (event) => this.#drag(event));
    this.#canvas.addEventListener('keydown', (event) => this.#key(event));
    this.#canvas.addEventListener('focus', () => this.#draw());
    this.#canvas.addEventListener('blur', () => this.#draw());
    find(HTMLButtonElement, 'clear-mask').addEventListener('click', () => this.clear());
  }

  /** Whether nothing is marked. */
  get empty() {
    return this.#mask.empty;
  }

  /** Returns a copy of the marks: 1 or 0 for each pixel. */
  pixels() {
    return this.#mask.pixels.slice();
  }

  /**
   * Begins with marks of another size.
   *
   * @param {number} width
   * @param {number} height
   */
  resize(width, height) {
    if (width === this.#mask.width && height === this.#mask.height) return;
    this.#mask = new Mask(width, height);
    this.#canvas.width = width;
    this.#canvas.height = height;
    this.#at = [width / 2, height / 2];
  }

  /** @param {boolean} visible */
  show(visible) {
    this.#canvas.hidden = !visible;
    this.#tools.hidden = !visible;
  }

  /** Marks nothing. */
  clear() {
    this.#mask.clear();
    this.#changed();
  }

  get #radius() {
    return (this.#brush.valueAsNumber / 200) * this.#mask.width;
  }

  /** @param {PointerEvent} event */
  #press(event) {
    this.#canvas.setPointerCapture(event.pointerId);
    this.#at = this.#position(event);
    this.#stroke(this.#at);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (this.#canvas.hasPointerCapture(event.pointerId)) this.#stroke(this.#position(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const arrow = ARROWS.get(event.key);
    if (!arrow && event.key !== ' ') return;
    event.preventDefault();
    if (!arrow) return this.#stroke(this.#at);
    const { width, height } = this.#mask;
    const [x, y] = [this.#at[0] + arrow[0] * this.#radius, this.#at[1] + arrow[1] * this.#radius];
    this.#at = [Math.min(width, Math.max(0, x)), Math.min(height, Math.max(0, y))];
    this.#draw();
  }

  /** @param {[number, number]} to */
  #stroke(to) {
    this.#mask.stroke(this.#at, to, this.#radius, this.#erase.checked ? 0 : 1);
    this.#at = to;
    this.#changed();
  }

  #changed() {
    this.#draw();
    this.#onChange();
  }

  #draw() {
    const context = this.#canvas.getContext('2d');
    if (!context) return;
    const image = context.createImageData(this.#mask.width, this.#mask.height);
    this.#mask.pixels.forEach((marked, index) => marked && image.data.set(MARK, 4 * index));
    context.putImageData(image, 0, 0);
    if (this.#canvas.matches(':focus-visible')) this.#drawBrush(context);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawBrush(context) {
    for (const [lineWidth, strokeStyle] of /** @type {const} */ ([
      [4, '#000'],
      [2, '#fff'],
    ])) {
      Object.assign(context, { lineWidth, strokeStyle });
      context.beginPath();
      context.arc(...this.#at, this.#radius, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  /**
   * @param {PointerEvent} event
   * @returns {[number, number]}
   */
  #position(event) {
    const box = this.#canvas.getBoundingClientRect();
    const { width, height } = this.#mask;
    return [
      ((event.clientX - box.left) / box.width) * width,
      ((event.clientY - box.top) / box.height) * height,
    ];
  }
}
