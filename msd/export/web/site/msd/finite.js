import { MsdError } from './errors.js';

/**
 * Returns `values`; throws 'failed', with a sentence that says what they are, where one is NaN or infinite:
 * no image could follow.
 *
 * @template {Float32Array} T
 * @param {T} values
 * @param {string} what
 * @returns {T}
 */
export function requireFinite(values, what) {
  let wrong = 0;
  for (const value of values) if (!Number.isFinite(value)) wrong++;
  if (wrong === 0) return values;
  throw new MsdError(
    'failed',
    `${what} has ${wrong} of ${values.length} values that are NaN or infinite, so no image was made;` +
      ' less guidance or another scheduler may help',
  );
}

/**
 * Returns an image, NHWC of one row and three channels; throws 'failed' where a number is not finite, and, as
 * msd/run/runtime/finite.py does, where it is one colour but for its edges, which padding changes: a decoder
 * whose numbers overflow float16 computes that, and never draws a picture so flat.
 *
 * @param {Float32Array} image
 * @param {{ width: number, height: number }} size
 * @param {string} what
 */
export function requirePicture(image, { width, height }, what) {
  requireFinite(image, what);
  const edge = Math.max(1, Math.floor(Math.min(width, height) / 8));
  const [rows, columns] = [height - 2 * edge, width - 2 * edge];
  if (rows < 1 || columns < 1 || rows * columns === 1) return image;
  const first = (edge * width + edge) * 3;
  for (let y = edge; y < height - edge; y++) {
    for (let at = (y * width + edge) * 3; at < (y * width + edge + columns) * 3; at++) {
      if (image[at] !== image[first + (at % 3)]) return image;
    }
  }
  throw new MsdError(
    'failed',
    `${what} is one colour throughout, so no image was made; a model converted anew, whose activations are` +
      ' scaled to float16, may help',
  );
}
