import { announce, create, find } from './element.js';
import { duration } from './quantity.js';
import { canCopy, canShare, copy, save, share } from './share.js';

/**
 * @typedef {import('./history.js').Kept} Kept
 * @typedef {import('./protocol.js').Pixels} Pixels
 */

const EMPTY = 'Your picture appears here.';
const BEGUN = 'Your picture is being made.';
const NOT_COPIED = 'This browser did not copy the picture. Save it instead.';

/** The stage: a preview on its way, or a picture and what can be done with it. */
export class Picture {
  #frame = find(HTMLElement, 'frame');
  #empty = find(HTMLElement, 'empty');
  #canvas = find(HTMLCanvasElement, 'preview');
  #image = find(HTMLImageElement, 'picture');
  #caption = find(HTMLElement, 'caption');
  #actions = find(HTMLElement, 'picture-actions');
  #note = find(HTMLElement, 'picture-note');
  /** @type {Kept | null} */
  #shown = null;

  /**
   * @param {(picture: Kept) => void} onReuse
   * @param {(picture: Kept) => void} onDelete
   */
  constructor(onReuse, onDelete) {
    this.#on('save', ({ png }) => save(png, this.#name()));
    this.#on('share', () => this.#tell(share([this.#file()]), 'The picture has been shared.', ''));
    this.#on('copy', ({ png }) => this.#tell(copy(png), 'The picture has been copied.', NOT_COPIED));
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
    this.note('');
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

  /**
   * Says a sentence below the picture, until another is shown; nothing for an empty one.
   *
   * @param {string} sentence
   */
  note(sentence) {
    this.#note.textContent = sentence;
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
   * @param {string} done
   * @param {string} refused
   */
  async #tell(work, done, refused) {
    const sentence = (await work) ? done : refused;
    this.note(sentence);
    if (sentence) announce(sentence);
  }
}

/** @param {Kept} picture */
function captionOf({ settings, seconds }) {
  const { seed, steps, guidance } = settings;
  const count = steps === '1' ? '1 step' : `${steps} steps`;
  return `Seed ${seed}, ${count}, guidance ${guidance}, made in ${duration(seconds)}.`;
}
