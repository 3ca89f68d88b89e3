/** Numbers as float16, by hand, because many browsers have no Float16Array. */

/**
 * Rounds to the nearest float16, to even ones where two are as near; what is too large becomes infinite.
 *
 * @param {Float32Array} values
 * @returns {Uint16Array} the bits of each
 */
export function toHalf(values) {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint16Array.from(bits, halfOf);
}

/**
 * @param {Uint16Array} halves the bits of each number
 * @returns {Float32Array} the same numbers
 */
export function fromHalf(halves) {
  return Float32Array.from(halves, numberOf);
}

/** @param {number} bits of a float32 */
function halfOf(bits) {
  const sign = (bits >>> 16) & 0x8000;
  const rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return sign | 0x7e00;
  if (rest >= 0x47800000) return sign | 0x7c00;
  if (rest >= 0x38800000) return sign | rounded(rest - 0x38000000, 13);
  const shift = 126 - (rest >>> 23);
  return shift > 24 ? sign : sign | rounded((rest & 0x7fffff) | 0x800000, shift);
}

/**
 * @param {number} bits
 * @param {number} shift
 */
function rounded(bits, shift) {
  const kept = bits >>> shift;
  const tie = 1 << (shift - 1);
  const dropped = bits & (2 * tie - 1);
  return dropped > tie || (dropped === tie && kept & 1) ? kept + 1 : kept;
}

/** @param {number} half */
function numberOf(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}
