import { MsdError } from './errors.js';
import { resize } from './lanczos.js';
import { cropped, grey, opaque } from './raster.js';

/**
 * Pixels as a canvas gives them: four bytes per pixel, row by row, not premultiplied.
 *
 * @typedef {{ rgba: Uint8ClampedArray, width: number, height: number, name?: string }} Photo
 */

/**
 * Crop the centre to the model's aspect ratio before resizing, or distort the whole image to it.
 *
 * @typedef {'crop' | 'stretch'} Fit
 */

/**
 * An image to begin with, fitted to a model's size: `pixels` is float32 NHWC RGB in [-1, 1], `mask` has a
 * number per pixel, 1 where the image is repainted and 0 where it is kept, or is null. `description` says
 * what was done.
 *
 * @typedef {object} InitialImage
 * @property {Float32Array<ArrayBuffer>} pixels
 * @property {Float32Array<ArrayBuffer> | null} mask
 * @property {number} width
 * @property {number} height
 * @property {string} description
 */

/**
 * @typedef {import('./raster.js').Box} Box
 */

/** The brightness from which a mask repaints. */
const HALF = 128;

/** The levels of what lies under transparent pixels. */
const [BLACK, WHITE] = [0, 255];

/**
 * Returns an image and a mask for it, fitted to `height` by `width` pixels as `msd generate --image` does.
 *
 * Transparent pixels are laid over white. The mask counts by its brightness and is fitted in the same way;
 * what is transparent in it is not repainted, whatever its colour. Resampling is Lanczos. Throws
 * 'bad-request' for a mask of another size than the image's, or without an opaque white pixel.
 *
 * @param {Photo} photo
 * @param {number} height
 * @param {number} width
 * @param {{ mask?: Photo | null, fit?: Fit }} [options]
 * @returns {InitialImage}
 */
export function initialImage(photo, height, width, { mask = null, fit = 'crop' } = {}) {
  const box = fit === 'crop' ? centre(photo, height, width) : { left: 0, top: 0, ...photo };
  const { data } = resize(cropped(opaque(photo, WHITE), box), width, height);
  const pixels = Float32Array.from(data, (level) => Math.fround(level / 127.5) - 1);
  const area = mask && maskOf(mask, photo, box, height, width);
  const said = mask ? `; mask ${named(mask)}${transparent(mask, 'not repainted')}` : '';
  return { pixels, mask: area, width, height, description: description(photo, box, height, width) + said };
}

/**
 * Returns how much of an image changes where nothing is said: 0.8, and all of what a mask says to repaint, as
 * in diffusers' pipelines.
 *
 * @param {{ mask: unknown }} image
 * @returns {number}
 */
export function strengthOf({ mask }) {
  return mask ? 1 : 0.8;
}

/**
 * Returns the pixels of an image with 0 where it is to be repainted, float32 NHWC.
 *
 * @param {InitialImage} image
 * @returns {Float32Array<ArrayBuffer>}
 */
export function maskedPixels({ pixels, mask }) {
  return pixels.map((value, i) => (mask?.[Math.floor(i / 3)] ? 0 : value));
}

/**
 * @param {Photo} mask
 * @param {Photo} photo
 * @param {Box} box
 * @param {number} height
 * @param {number} width
 */
function maskOf(mask, photo, box, height, width) {
  if (mask.width !== photo.width || mask.height !== photo.height) {
    throw new MsdError(
      'bad-request',
      `the mask has ${size(mask)} and the image has ${size(photo)}; they should be equal`,
    );
  }
  const { data } = resize(cropped(grey(opaque(mask, BLACK)), box), width, height);
  const area = Float32Array.from(data, (level) => (level >= HALF ? 1 : 0));
  if (area.includes(1)) return area;
  throw new MsdError(
    'bad-request',
    'the mask has no opaque white pixel where the image is used; white says what to repaint',
  );
}

/**
 * Returns the part at the centre of an image that has the aspect ratio of a size.
 *
 * @param {Photo} photo
 * @param {number} high
 * @param {number} wide
 * @returns {Box}
 */
function centre({ width, height }, high, wide) {
  const scale = Math.min(width / wide, height / high);
  const across = Math.max(1, rounded(wide * scale));
  const down = Math.max(1, rounded(high * scale));
  return { left: (width - across) >> 1, top: (height - down) >> 1, width: across, height: down };
}

/**
 * Returns a number rounded as Python does it: halves to the even one.
 *
 * @param {number} value
 */
function rounded(value) {
  const floor = Math.floor(value);
  return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
}

/**
 * @param {Photo} photo
 * @param {Box} box
 * @param {number} height
 * @param {number} width
 */
function description(photo, box, height, width) {
  const [from, part, to] = [size(photo), size(box), size({ width, height })];
  const remark = transparent(photo, 'laid over white');
  const cropped = part === from ? '' : `, cropped to ${part}`;
  const resized = part === to ? '' : `, resized to ${to}`;
  return `${named(photo)}: ${from}${remark}${cropped}${resized}`;
}

/**
 * Returns what is said of the transparent pixels of an image, empty where it has none.
 *
 * @param {Photo} photo
 * @param {string} what happens to them
 */
function transparent({ rgba }, what) {
  for (let i = 3; i < rgba.length; i += 4) if (rgba[i] < 255) return `, transparent pixels ${what}`;
  return '';
}

/** @param {Photo} photo */
function named({ name }) {
  return name ?? 'image';
}

/** @param {{ width: number, height: number }} image */
function size({ width, height }) {
  return `${width}×${height} pixels`;
}
