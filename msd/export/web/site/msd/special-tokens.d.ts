/** @typedef {import('./manifest.js').SpecialToken} SpecialToken */
/**
 * Special tokens that are matched in the same stage: before the text is normalised, or after.
 */
export class SpecialTokens {
    /** @param {SpecialToken[]} tokens */
    constructor(tokens: SpecialToken[]);
    /** @private The last of equal texts counts, as it does in Python. */
    private ids;
    /** @private */
    private pattern;
    /**
     * Returns the ids of a text: those of the special tokens in it, and what `idsOf` returns for each text
     * between.
     *
     * @param {string} text
     * @param {(text: string) => number[]} idsOf
     * @returns {number[]}
     */
    cut(text: string, idsOf: (text: string) => number[]): number[];
}
export type SpecialToken = import("./manifest.js").SpecialToken;
