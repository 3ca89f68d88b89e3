/**
 * @typedef {import('./lanczos.js').Raster} Raster
 * @typedef {import('./initial-image.js').Photo} Photo
 * @typedef {{ left: number, top: number, width: number, height: number }} Box
 */
/**
 * Returns RGB, what is transparent over a grey of one level, with the integers of Pillow's `alpha_composite`.
 *
 * @param {Photo} photo
 * @param {number} ground
 * @returns {Raster}
 */
export function opaque({ rgba, width, height }: Photo, ground: number): Raster;
/**
 * Returns the brightness of RGB, after ITU-R 601-2, with the integers of Pillow's `convert('L')`.
 *
 * @param {Raster} raster
 * @returns {Raster}
 */
export function grey({ data, width, height }: Raster): Raster;
/**
 * Returns a part of an image.
 *
 * @param {Raster} raster
 * @param {Box} box
 * @returns {Raster}
 */
export function cropped({ data, width: from, channels }: Raster, { left, top, width, height }: Box): Raster;
export type Raster = import("./lanczos.js").Raster;
export type Photo = import("./initial-image.js").Photo;
export type Box = {
    left: number;
    top: number;
    width: number;
    height: number;
};
