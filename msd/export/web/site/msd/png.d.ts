/**
 * Returns a PNG file of RGB pixels, alpha left out, with each of `texts` as an international text chunk, as
 * `msd generate` writes them. PNG Specification, third edition (W3C, 2025).
 *
 * @param {Uint8ClampedArray} rgba
 * @param {number} width
 * @param {number} height
 * @param {Record<string, unknown>} [texts] values are written as `String` makes them
 * @returns {Promise<Blob>}
 */
export function encodePng(rgba: Uint8ClampedArray, width: number, height: number, texts?: Record<string, unknown>): Promise<Blob>;
/**
 * Returns the texts of a PNG file by their keys: chunks tEXt and iTXt that are not compressed.
 *
 * Throws 'bad-request' for a file that is no PNG, or is cut.
 *
 * @param {ArrayBuffer} buffer
 * @returns {Record<string, string>}
 */
export function readPngTexts(buffer: ArrayBuffer): Record<string, string>;
