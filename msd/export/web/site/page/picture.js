import { announce, create, find } from './element.js';
import { duration } from './quantity.js';
import { canCopy, canShare, copy, save, share } from './share.js';

/**
 * @typedef {import('./history.js').Kept} Kept
 * @typedef {import('./protocol.js').Pixels} Pixels
 */

const EMPTY = 'Your picture appears here.';
const BEGUN = 'Your picture is being made.';

/** The stage: a preview on its way, or a picture and what can be done with it. */
export class Picture {
  #frame = find(HTMLElement, 'frame');
  #empty = find(HTMLElement, 'empty');
  #canvas = find(HTMLCanvasElement, 'preview');
  #image = find(HTMLImageElement, 'picture');
  #caption = find(HTMLElement, 'caption');
  #actions = find(HTMLElement, 'picture-actions');
  /** @type {Kept | null} */
  #shown = null;

  /**
   * @param {(picture: Kept) => void} onReuse
   * @param {(picture: Kept) => void} onDelete
   */
  constructor(onReuse, onDelete) {
    this.#on('save', ({ png }) => save(png, this.#name()));
    this.#on('share', () => this.#tell(share([this.#file()]), 'The picture has been shared.'));
    this.#on('copy', ({ png }) => this.#tell(copy(png), 'The picture has been copied.'));
    this.#on('reuse', onReuse);
    this.#on('delete-picture', onDelete);
  }

  /**
   * Has the frame of the stage take a picture's shape.
   *
   * @param {number} width
   * @param {number} height
   */
  resize(width, height) {
    this.#frame.style.aspectRatio = `${width} / ${height}`;
  }

  /** Says that a picture is on its way, where there is none before it. */
  begin() {
    this.#empty.textContent = BEGUN;
  }

  /**
   * Shows how a picture looks by now.
   *
   * @param {Pixels} pixels
   */
  preview({ rgba, width, height }) {
    this.#canvas.width = width;
    this.#canvas.height = height;
    this.#canvas
      .getContext('2d')
      ?.putImageData(new ImageData(new Uint8ClampedArray(rgba), width, height), 0, 0);
    this.#reveal(this.#canvas);
    this.#caption.hidden = true;
    this.#actions.hidden = true;
  }

  /**
   * Shows a picture that is done; null for none.
   *
   * @param {Kept | null} picture
   */
  show(picture) {
    this.#shown = picture;
    if (this.#image.src) URL.revokeObjectURL(this.#image.src);
    this.#caption.hidden = !picture;
    this.#actions.hidden = !picture;
    this.#empty.textContent = EMPTY;
    if (!picture) return this.#reveal(this.#empty);
    this.resize(picture.width, picture.height);
    this.#image.src = URL.createObjectURL(picture.png);
    this.#image.alt = `The picture for: ${picture.settings.prompt}`;
    this.#caption.replaceChildren(
      create('strong', { textContent: picture.settings.prompt }),
      captionOf(picture),
    );
    find(HTMLElement, 'delete-picture').hidden = picture.id === undefined;
    find(HTMLElement, 'share').hidden = !canShare([this.#file()]);
    find(HTMLElement, 'copy').hidden = !canCopy();
    this.#reveal(this.#image);
  }

  /** Shows the last picture again, after one that was cancelled or failed. */
  restore() {
    this.show(this.#shown);
  }

  /** @param {HTMLElement} shown */
  #reveal(shown) {
    for (const child of this.#frame.children) /** @type {HTMLElement} */ (child).hidden = child !== shown;
  }

  /**
   * @param {string} id
   * @param {(picture: Kept) => unknown} action
   */
  #on(id, action) {
    find(HTMLButtonElement, id).addEventListener('click', () => this.#shown && action(this.#shown));
  }

  #file() {
    const parts = this.#shown ? [this.#shown.png] : [];
    return new File(parts, this.#name(), { type: 'image/png' });
  }

  /** The first words of the prompt, and the seed. */
  #name() {
    const { prompt = '', seed = '' } = this.#shown?.settings ?? {};
    const words = prompt.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ['picture'];
    return `${words.slice(0, 6).join('-').slice(0, 60)}-${seed}.png`;
  }

  /**
   * @param {Promise<boolean>} work
   * @param {string} sentence
   */
  async #tell(work, sentence) {
    if (await work) announce(sentence);
  }
}

/** @param {Kept} picture */
function captionOf({ settings, seconds }) {
  const { seed, steps, guidance } = settings;
  const count = steps === '1' ? '1 step' : `${steps} steps`;
  return `Seed ${seed}, ${count}, guidance ${guidance}, made in ${duration(seconds)}.`;
}
