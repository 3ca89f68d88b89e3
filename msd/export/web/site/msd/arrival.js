const INTERVAL = 100;

/** How many bytes of a list of files have arrived, told to somebody, though not after each byte. */
export class Arrival {
  /** @type {Map<string, number>} */
  #bytes = new Map();
  #onProgress;
  #last = -Infinity;

  /**
   * @param {number} total  in bytes
   * @param {((bytes: number, total: number) => void) | undefined} onProgress
   */
  constructor(total, onProgress) {
    this.total = total;
    this.#onProgress = onProgress;
  }

  /** How many bytes have arrived. */
  get bytes() {
    return sum([...this.#bytes.values()]);
  }

  /**
   * Notes what there is before anything arrives, and tells the sum.
   *
   * @param {Map<string, number>} bytes
   */
  begin(bytes) {
    this.#bytes = bytes;
    this.tell();
  }

  /**
   * Notes how many bytes of a file have arrived, and tells the sum unless it was told just now.
   *
   * @param {string} name
   * @param {number} bytes
   */
  note(name, bytes) {
    this.#bytes.set(name, bytes);
    if (performance.now() - this.#last >= INTERVAL) this.tell();
  }

  /** Tells the sum. */
  tell() {
    this.#last = performance.now();
    this.#onProgress?.(this.bytes, this.total);
  }
}

/**
 * @param {number[]} numbers
 * @returns {number}
 */
export function sum(numbers) {
  return numbers.reduce((one, other) => one + other, 0);
}
