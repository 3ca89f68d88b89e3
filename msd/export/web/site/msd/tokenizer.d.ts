/**
 * CLIP's byte-level BPE tokenizer: Radford et al., "Learning Transferable Visual Models From Natural Language
 * Supervision" (2021), section 2.4. Its ids are those of msd.runtime.tokenizer.
 */
export class Tokenizer {
    /**
     * @param {string} tokensText tokens.txt, a token on the line of its id, empty where there is none
     * @param {string} mergesText merges.txt, the pairs that merge, "left right", the earliest first
     * @param {TokenizerFacts} facts
     */
    constructor(tokensText: string, mergesText: string, facts: TokenizerFacts);
    /** @private */
    private ids;
    /** @private */
    private ranks;
    /** @private */
    private facts;
    /** @private */
    private early;
    /** @private */
    private late;
    /** @private @type {Map<string, number[]>} */
    private words;
    /** How many ids fit between the start and the end token of a chunk. */
    get room(): number;
    /**
     * Returns the ids of a text in exactly `chunks` chunks, each with a start and an end token, cut and padded.
     *
     * @param {string} text
     * @param {number} [chunks]
     * @returns {Int32Array<ArrayBuffer>[]} each of the length that the model takes
     */
    encode(text: string, chunks?: number): Int32Array<ArrayBuffer>[];
    /**
     * Returns the ids of a text without start and end, not cut.
     *
     * @param {string} text
     * @returns {number[]}
     */
    innerIds(text: string): number[];
    /**
     * @private
     * @param {number[]} inner
     */
    private framed;
    /**
     * @private
     * @param {string} word
     */
    private idsOfWord;
}
export type TokenizerFacts = import("./manifest.js").TokenizerFacts;
