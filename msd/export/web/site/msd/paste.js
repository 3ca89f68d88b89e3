import { pixels } from './pixels.js';

/** Pixels from what is kept to where nothing of the original is left. */
const FEATHER = 4;

/**
 * Returns a generated image with what the mask of `image` keeps in its own levels, with a soft edge in the
 * repainted part, as `msd.run.runtime.paste` does. Without a mask, the result is `rgba`.
 *
 * @param {Uint8ClampedArray<ArrayBuffer>} rgba
 * @param {import('./initial-image.js').InitialImage} image
 * @returns {Uint8ClampedArray<ArrayBuffer>}
 */
export function paste(rgba, { pixels: original, mask, width }) {
  if (!mask) return rgba;
  const [kept, depth] = [pixels(original), depths(mask, width)];
  return rgba.map((level, i) => {
    const near = depth[i >> 2];
    return Math.floor((near * level + (FEATHER - near) * kept[i] + FEATHER / 2) / FEATHER);
  });
}

/**
 * Returns how far each pixel of a mask is from what it keeps, at most `FEATHER`. A diagonal neighbour is one
 * pixel away; what lies beyond the image's edge is not kept.
 *
 * @param {Float32Array} mask
 * @param {number} width
 * @returns {Uint8Array}
 */
export function depths(mask, width) {
  let inside = Uint8Array.from(mask);
  const depth = Uint8Array.from(inside);
  for (let i = 1; i < FEATHER; i++) {
    inside = eroded(inside, width);
    inside.forEach((each, at) => (depth[at] += each));
  }
  return depth;
}

/**
 * Returns 1 for each pixel that is inside with all of its neighbours, and 0 for the others.
 *
 * @param {Uint8Array} inside
 * @param {number} width
 */
function eroded(inside, width) {
  const last = { x: width - 1, y: inside.length / width - 1 };
  return inside.map((each, at) => {
    const [x, y] = [at % width, Math.floor(at / width)];
    for (let row = Math.max(y - 1, 0); row <= Math.min(y + 1, last.y); row++) {
      for (let column = Math.max(x - 1, 0); column <= Math.min(x + 1, last.x); column++) {
        if (!inside[row * width + column]) return 0;
      }
    }
    return each;
  });
}
