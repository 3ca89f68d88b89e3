/**
 * @param {number[]} numbers
 * @returns {number}
 */
export function sum(numbers: number[]): number;
/** How many bytes of a list of files have arrived, told to somebody, though not after each byte. */
export class Arrival {
    /**
     * @param {number} total  in bytes
     * @param {((bytes: number, total: number) => void) | undefined} onProgress
     */
    constructor(total: number, onProgress: ((bytes: number, total: number) => void) | undefined);
    total: number;
    /** How many bytes have arrived. */
    get bytes(): number;
    /**
     * Notes what there is before anything arrives, and tells the sum.
     *
     * @param {Map<string, number>} bytes
     */
    begin(bytes: Map<string, number>): void;
    /**
     * Notes how many bytes of a file have arrived, and tells the sum unless it was told just now.
     *
     * @param {string} name
     * @param {number} bytes
     */
    note(name: string, bytes: number): void;
    /** Tells the sum. */
    tell(): void;
    #private;
}
