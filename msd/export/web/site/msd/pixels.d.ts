/**
 * Returns RGBA, opaque, for an RGB image of any number of pixels in [-1, 1], clipped and rounded as NumPy
 * does: a level that ends in a half goes to the even one. NaN becomes 0.
 *
 * @param {Float32Array} image NHWC, one row, three channels
 * @returns {Uint8ClampedArray<ArrayBuffer>} four bytes per pixel
 */
export function pixels(image: Float32Array): Uint8ClampedArray<ArrayBuffer>;
/**
 * Returns the pixels of an opaque RGBA image as float32 RGB in [-1, 1], NHWC, as `msd.runtime.image.image_of`
 * does.
 *
 * @param {Uint8ClampedArray} rgba
 * @returns {Float32Array<ArrayBuffer>}
 */
export function imageOf(rgba: Uint8ClampedArray): Float32Array<ArrayBuffer>;
