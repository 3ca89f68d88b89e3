import { MsdError } from './errors.js';
import { Pcg64 } from './pcg64.js';
import { Ziggurat } from './ziggurat.js';

const MOST_SEED = 2n ** 63n - 1n;

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
export function noise(seed, size, step = 0) {
  const words = wordsOf(checkedSeed(seed));
  return normal(step === 0 ? words : [...words, step], size);
}

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
export function posteriorNoise(seed, size, stream) {
  return normal([...wordsOf(checkedSeed(seed)), 0, stream], size);
}

/**
 * Returns a seed as a bigint; throws 'bad-request' unless it is a whole number from 0 to 2^63 - 1.
 *
 * A number beyond 2^53 has been rounded already, so it is refused; a bigint has not.
 *
 * @param {number | bigint} seed
 * @returns {bigint}
 */
export function checkedSeed(seed) {
  const whole = typeof seed === 'bigint' || Number.isSafeInteger(seed);
  if (whole && seed >= 0 && seed <= MOST_SEED) return BigInt(seed);
  throw new MsdError(
    'bad-request',
    `the seed is ${seed}; it should be a whole number from 0 to ${MOST_SEED}, a bigint beyond 2^53`,
  );
}

/**
 * @param {number[]} entropy
 * @param {number} size
 */
function normal(entropy, size) {
  const ziggurat = new Ziggurat(new Pcg64(entropy));
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) values[i] = ziggurat.next();
  return values;
}

/**
 * Returns the 32-bit words of a number, the least significant first, without leading zeros.
 *
 * @param {bigint} number
 */
function wordsOf(number) {
  const low = Number(number & 0xffffffffn);
  const high = Number(number >> 32n);
  return high === 0 ? [low] : [low, high];
}
