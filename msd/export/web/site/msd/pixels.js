/**
 * Returns RGBA, opaque, for an RGB image of any number of pixels in [-1, 1], clipped and rounded as NumPy
 * does: a level that ends in a half goes to the even one. NaN becomes 0.
 *
 * @param {Float32Array} image NHWC, one row, three channels
 * @returns {Uint8ClampedArray<ArrayBuffer>} four bytes per pixel
 */
export function pixels(image) {
  const count = Math.floor(image.length / 3);
  const rgba = new Uint8ClampedArray(4 * count).fill(255);
  for (let i = 0; i < count; i++) {
    for (let channel = 0; channel < 3; channel++) rgba[4 * i + channel] = level(image[3 * i + channel]);
  }
  return rgba;
}

/**
 * Returns 0 to 255 before rounding, which a Uint8ClampedArray does, halves to the even number.
 *
 * @param {number} value
 */
function level(value) {
  const unit = Math.fround(Math.fround(value / 2) + 0.5);
  return Math.fround(Math.min(Math.max(unit, 0), 1) * 255);
}

/**
 * Returns the pixels of an opaque RGBA image as float32 RGB in [-1, 1], NHWC, as
 * `msd.run.runtime.image.image_of` does.
 *
 * @param {Uint8ClampedArray} rgba
 * @returns {Float32Array<ArrayBuffer>}
 */
export function imageOf(rgba) {
  const image = new Float32Array((rgba.length / 4) * 3);
  for (let i = 0; i < image.length; i++) {
    image[i] = Math.fround(rgba[4 * Math.floor(i / 3) + (i % 3)] / 127.5) - 1;
  }
  return image;
}
