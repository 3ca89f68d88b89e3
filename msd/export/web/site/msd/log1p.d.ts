/**
 * Returns ln(1 + x) in float32 for x in (-1, 0], with the rounding errors of the C library under which noise
 * was recorded: the last bit of rare numbers in a normal distribution's tail is one of them.
 *
 * @param {number} x a float32 number
 * @returns {number} a float32 number
 */
export function log1p(x: number): number;
