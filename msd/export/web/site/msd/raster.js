/**
 * @typedef {import('./lanczos.js').Raster} Raster
 * @typedef {import('./initial-image.js').Photo} Photo
 * @typedef {{ left: number, top: number, width: number, height: number }} Box
 */

/**
 * Returns RGB, what is transparent over a grey of one level, with the integers of Pillow's `alpha_composite`.
 *
 * @param {Photo} photo
 * @param {number} ground
 * @returns {Raster}
 */
export function opaque({ rgba, width, height }, ground) {
  const data = new Uint8ClampedArray(3 * width * height);
  for (let i = 0; i < data.length; i++) {
    const pixel = 4 * Math.floor(i / 3);
    const alpha = rgba[pixel + 3];
    const sum = (rgba[pixel + (i % 3)] * alpha + ground * (255 - alpha)) * 128 + 0x4000;
    data[i] = (((sum >> 8) + sum) >> 8) >> 7;
  }
  return { data, width, height, channels: 3 };
}

/**
 * Returns the brightness of RGB, after ITU-R 601-2, with the integers of Pillow's `convert('L')`.
 *
 * @param {Raster} raster
 * @returns {Raster}
 */
export function grey({ data, width, height }) {
  const made = new Uint8ClampedArray(width * height);
  for (let i = 0; i < made.length; i++) {
    made[i] = (data[3 * i] * 19595 + data[3 * i + 1] * 38470 + data[3 * i + 2] * 7471 + 0x8000) >> 16;
  }
  return { data: made, width, height, channels: 1 };
}

/**
 * Returns a part of an image.
 *
 * @param {Raster} raster
 * @param {Box} box
 * @returns {Raster}
 */
export function cropped({ data, width: from, channels }, { left, top, width, height }) {
  const made = new Uint8ClampedArray(width * height * channels);
  for (let y = 0; y < height; y++) {
    const start = ((top + y) * from + left) * channels;
    made.set(data.subarray(start, start + width * channels), y * width * channels);
  }
  return { data: made, width, height, channels };
}
