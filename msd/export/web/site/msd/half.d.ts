/** Numbers as float16, by hand, because many browsers have no Float16Array. */
/**
 * Rounds to the nearest float16, to even ones where two are as near; what is too large becomes infinite.
 *
 * @param {Float32Array} values
 * @returns {Uint16Array} the bits of each
 */
export function toHalf(values: Float32Array): Uint16Array;
/**
 * @param {Uint16Array} halves the bits of each number
 * @returns {Float32Array} the same numbers
 */
export function fromHalf(halves: Uint16Array): Float32Array;
