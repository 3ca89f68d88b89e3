/**
 * Throws the error for a cancelled call.
 *
 * @param {AbortSignal | undefined} signal
 */
export function checkCancelled(signal: AbortSignal | undefined): void;
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
    constructor(code: Code, sentence: string, cause?: unknown);
    /** @type {Code} */
    code: Code;
}
/**
 * What can go wrong, in a sentence that says what is wrong and what would be right.
 */
export type Code = "no-webgpu" | "too-small" | "device-lost" | "out-of-memory" | "damaged" | "offline" | "storage-full" | "cancelled" | "bad-request" | "bad-manifest" | "failed";
