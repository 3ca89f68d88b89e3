export class Pcg64 {
    /**
     * @param {number[]} entropy up to four words of 32 bits, the least significant first
     */
    constructor(entropy: number[]);
    /** @private */
    private state;
    /** @private */
    private increment;
    /** @private @type {number | null} */
    private spare;
    /**
     * Returns the next 32 bits, 0 to 2^32 - 1: the lower half of the next 64 bits, then the upper half.
     *
     * @returns {number}
     */
    next(): number;
    /**
     * Makes the state that times the multiplier, plus the increment, modulo 2^128.
     *
     * @private
     */
    private advance;
}
