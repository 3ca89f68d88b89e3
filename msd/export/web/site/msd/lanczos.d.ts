/**
 * Returns an image at another size: across first, then down, each rounded to 8 bits.
 *
 * @param {Raster} raster
 * @param {number} width
 * @param {number} height
 * @returns {Raster}
 */
export function resize(raster: Raster, width: number, height: number): Raster;
/**
 * Resampling with a Lanczos kernel whose support grows with the reduction, so that nothing aliases: the
 * numbers of Pillow's `Image.resize` for 8 bits per channel (its libImaging/Resample.c), fixed point and all.
 *
 * An image is a `Uint8ClampedArray` of `channels` bytes per pixel, row by row.
 */
export type Raster = {
    data: Uint8ClampedArray<ArrayBuffer>;
    width: number;
    height: number;
    channels: number;
};
