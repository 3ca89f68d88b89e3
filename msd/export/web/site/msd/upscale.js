import { MsdError, checkCancelled } from './errors.js';
import { requireFinite } from './finite.js';
import { modelFile } from './manifest.js';
import { pixels } from './pixels.js';
import { runRows } from './rows.js';
import { covered, joinedRows, tileCount } from './tiles.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').UpscalerFacts} UpscalerFacts
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./progress.js').Picture} Picture
 * @typedef {import('./progress.js').Watch} Watch
 */

/**
 * Returns the upscaler that a request asks for, null where it asks for none; throws 'bad-request' where the
 * model has none, or one of another scale.
 *
 * @param {{ upscaler?: UpscalerFacts | null }} app
 * @param {{ upscale?: number | boolean }} request
 * @returns {UpscalerFacts | null}
 */
export function upscalerOf({ upscaler }, { upscale }) {
  if (!upscale) return null;
  if (!upscaler) throw new MsdError('bad-request', 'this model has no upscaler');
  if (upscale === true || upscale === upscaler.scale) return upscaler;
  const sentence = `the upscaler of this model enlarges ${upscaler.scale} times, not ${upscale}`;
  throw new MsdError('bad-request', sentence);
}

/**
 * Returns a picture enlarged, a tile at a time, as msd/run/runtime/upscale.py does: one smaller than a tile
 * is continued by its last pixels.
 *
 * @param {AppManifest} app
 * @param {UpscalerFacts} facts
 * @param {Network} network the upscaler
 * @param {Picture} picture
 * @param {Watch} [watch]
 * @returns {Promise<Picture>}
 * @throws {MsdError} 'cancelled', 'failed' for a tile that is not finite
 */
export async function enlarged(app, facts, network, picture, watch = {}) {
  const { scale, tiles } = facts;
  const file = modelFile(app, facts.role);
  const rows = covered(picture.height, tiles.rows, tiles.multiple);
  const columns = covered(picture.width, tiles.columns, tiles.multiple);
  const count = tileCount(rows, columns, tiles);
  const [width, height] = [scale * picture.width, scale * picture.height];
  const rgba = new Uint8ClampedArray(4 * width * height);
  let [begun, top] = [0, 0];
  const run = async (/** @type {number} */ first, /** @type {number} */ left) => {
    checkCancelled(watch.signal);
    watch.onProgress?.({ stage: 'enlarging', tile: ++begun, tiles: count });
    const [outputs] = await runRows(network, file, [{ [facts.input]: tileOf(picture, first, left, tiles) }]);
    return requireFinite(outputs[facts.output], `The image of the ${file.title}`);
  };
  for await (const part of joinedRows({ rows, columns, scale, channels: 3 }, tiles, run)) {
    top = draw(rgba, { width, height }, part, scale * columns, top);
  }
  return { rgba, width, height };
}

/**
 * Returns a tile of a picture as float32 RGB in [-1, 1], beyond its edges its last pixels.
 *
 * @param {Picture} picture
 * @param {number} top
 * @param {number} left
 * @param {import('./tiles.js').Tiling} tiles
 */
function tileOf({ rgba, width, height }, top, left, { rows, columns }) {
  const tile = new Float32Array(rows * columns * 3);
  let at = 0;
  for (let y = top; y < top + rows; y++) {
    for (let x = left; x < left + columns; x++) {
      const from = 4 * (Math.min(y, height - 1) * width + Math.min(x, width - 1));
      for (let c = 0; c < 3; c++) tile[at++] = Math.fround(rgba[from + c] / 127.5) - 1;
    }
  }
  return tile;
}

/**
 * Draws rows of RGB in [-1, 1] into a picture from row `top` on, without what lies beyond it; returns the
 * row after them.
 *
 * @param {Uint8ClampedArray} rgba
 * @param {{ width: number, height: number }} size
 * @param {Float32Array} part
 * @param {number} columns of the part
 * @param {number} top
 */
function draw(rgba, { width, height }, part, columns, top) {
  const count = part.length / (3 * columns);
  for (let row = 0; row < Math.min(count, height - top); row++) {
    const line = pixels(part.subarray(3 * row * columns, 3 * (row * columns + width)));
    rgba.set(line, 4 * (top + row) * width);
  }
  return top + count;
}
