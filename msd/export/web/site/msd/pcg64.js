/**
 * PCG XSL RR 128/64, seeded and read as NumPy's PCG64: O'Neill, "PCG: A Family of Simple Fast Space-Efficient
 * Statistically Good Algorithms for Random Number Generation" (2014).
 *
 * Numbers of 128 bits are eight limbs of 16 bits, the least significant first, so that sums of their products
 * are exact.
 */
const LIMBS = 8;
const MULTIPLIER = limbs([0x9fccf645, 0x4385df64, 0x1fc65da4, 0x2360ed05]);

export class Pcg64 {
  #state;
  #increment;
  /** @type {number | null} */
  #spare;

  /**
   * @param {number[]} entropy up to four words of 32 bits, the least significant first
   */
  constructor(entropy) {
    const words = seedWords(entropy);
    this.#state = new Float64Array(LIMBS);
    this.#increment = odd(limbs([words[6], words[7], words[4], words[5]]));
    this.#spare = null;
    this.#advance();
    add(this.#state, limbs([words[2], words[3], words[0], words[1]]));
    this.#advance();
  }

  /**
   * Returns the next 32 bits, 0 to 2^32 - 1: the lower half of the next 64 bits, then the upper half.
   *
   * @returns {number}
   */
  next() {
    const spare = this.#spare;
    if (spare !== null) {
      this.#spare = null;
      return spare;
    }
    this.#advance();
    const s = this.#state;
    const low = (s[0] | (s[1] << 16)) ^ (s[4] | (s[5] << 16));
    const high = (s[2] | (s[3] << 16)) ^ (s[6] | (s[7] << 16));
    const turn = s[7] >>> 10;
    this.#spare = turn < 32 ? rotated(high, low, turn) : rotated(low, high, turn - 32);
    return turn < 32 ? rotated(low, high, turn) : rotated(high, low, turn - 32);
  }

  /**
   * Makes the state that times the multiplier, plus the increment, modulo 2^128.
   */
  #advance() {
    const [state, increment] = [this.#state, this.#increment];
    const next = new Float64Array(LIMBS);
    let carry = 0;
    for (let i = 0; i < LIMBS; i++) {
      carry += increment[i];
      for (let j = 0; j <= i; j++) carry += state[j] * MULTIPLIER[i - j];
      next[i] = carry % 65536;
      carry = (carry - next[i]) / 65536;
    }
    this.#state = next;
  }
}

/**
 * Returns the lower half of two words of 32 bits, rotated to the right by 0 to 31 bits.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} turn
 */
function rotated(low, high, turn) {
  return (turn === 0 ? low : (low >>> turn) | (high << (32 - turn))) >>> 0;
}

/** @param {number[]} words of 32 bits, the least significant first */
function limbs(words) {
  return Float64Array.from(words.flatMap((word) => [word & 0xffff, word >>> 16]));
}

/**
 * Returns twice a number plus one, modulo 2^128.
 *
 * @param {Float64Array} number
 */
function odd(number) {
  return number.map((limb, i) => ((limb << 1) & 0xffff) | (i === 0 ? 1 : number[i - 1] >>> 15));
}

/**
 * @param {Float64Array} to
 * @param {Float64Array} number
 */
function add(to, number) {
  let carry = 0;
  for (let i = 0; i < LIMBS; i++) {
    const sum = to[i] + number[i] + carry;
    to[i] = sum % 65536;
    carry = sum >= 65536 ? 1 : 0;
  }
}

/**
 * Returns eight words of 32 bits, the state's four first: NumPy's SeedSequence, after O'Neill, "Developing a
 * seed_seq Alternative" (2015).
 *
 * @param {number[]} entropy
 */
function seedWords(entropy) {
  const hash = hasher(0x43b0d7e5, 0x931e8875);
  const pool = [0, 1, 2, 3].map((i) => hash(entropy[i] ?? 0));
  for (let from = 0; from < 4; from++) {
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mixed(pool[to], hash(pool[from]));
  }
  const state = hasher(0x8b51f9dd, 0x58f38ded);
  return [0, 1, 2, 3, 0, 1, 2, 3].map((i) => state(pool[i]) >>> 0);
}

/**
 * @param {number} constant
 * @param {number} multiplier
 * @returns {(word: number) => number}
 */
function hasher(constant, multiplier) {
  return (word) => {
    const before = word ^ constant;
    constant = Math.imul(constant, multiplier);
    const value = Math.imul(before, constant);
    return value ^ (value >>> 16);
  };
}

/**
 * @param {number} x
 * @param {number} y
 */
function mixed(x, y) {
  const value = Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y);
  return value ^ (value >>> 16);
}
