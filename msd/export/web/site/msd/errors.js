/**
 * What can go wrong, in a sentence that says what is wrong and what would be right.
 *
 * @typedef {'no-webgpu' | 'too-small' | 'device-lost' | 'out-of-memory' | 'damaged' | 'offline'
 *   | 'storage-full' | 'cancelled' | 'bad-request' | 'bad-manifest' | 'failed'} Code
 */
export class MsdError extends Error {
  /**
   * @param {Code} code
   * @param {string} sentence
   * @param {unknown} [cause]
   */
  constructor(code, sentence, cause) {
    super(sentence, { cause });
    this.name = 'MsdError';
    /** @type {Code} */
    this.code = code;
  }
}

/**
 * Throws the error for a cancelled call.
 *
 * @param {AbortSignal | undefined} signal
 */
export function checkCancelled(signal) {
  if (signal?.aborted) throw new MsdError('cancelled', 'It was cancelled.');
}
