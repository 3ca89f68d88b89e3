/** For each layer: its width per unit of distance; which distances are inside; the height where it begins. */
export const WIDTH: Float32Array<ArrayBuffer>;
export const INSIDE: Int32Array<ArrayBuffer>;
export const DENSITY: Float32Array<ArrayBuffer>;
/**
 * Normal numbers in float32, those that NumPy's `standard_normal` makes of the same bits: Marsaglia and
 * Tsang, "The Ziggurat Method for Generating Random Variables" (2000), with 256 layers.
 */
export class Ziggurat {
    /** @param {{ next(): number }} bits whose next 32 bits are a number from 0 to 2^32 - 1 */
    constructor(bits: {
        next(): number;
    });
    /** @private */
    private bits;
    /**
     * Returns the next normal number, a float32 number.
     *
     * @returns {number}
     */
    next(): number;
    /**
     * Returns a number beyond the last layer.
     *
     * @private
     */
    private tail;
    /**
     * Returns a number of 24 bits in [0, 1).
     *
     * @private
     */
    private uniform;
}
