/**
 * Returns `size` float32 numbers of normal noise: those of NumPy's PCG64 for the same seed, bit by bit, in
 * the order of NHWC memory.
 *
 * Step 0 is the noise that an image begins with; the noise that a scheduler adds after a step has a stream of
 * its own. Throws 'bad-request' for a seed that `checkedSeed` refuses.
 *
 * @param {number | bigint} seed
 * @param {number} size
 * @param {number} [step]
 * @returns {Float32Array<ArrayBuffer>}
 */
export function noise(seed: number | bigint, size: number, step?: number): Float32Array<ArrayBuffer>;
/**
 * Returns `size` float32 numbers of normal noise for the latents of an encoded image; a seed has several
 * streams.
 *
 * Throws 'bad-request' as `noise` does.
 *
 * @param {number | bigint} seed
 * @param {number} size
 * @param {number} stream
 * @returns {Float32Array<ArrayBuffer>}
 */
export function posteriorNoise(seed: number | bigint, size: number, stream: number): Float32Array<ArrayBuffer>;
/**
 * Returns a seed as a bigint; throws 'bad-request' unless it is a whole number from 0 to 2^63 - 1.
 *
 * A number beyond 2^53 has been rounded already, so it is refused; a bigint has not.
 *
 * @param {number | bigint} seed
 * @returns {bigint}
 */
export function checkedSeed(seed: number | bigint): bigint;
