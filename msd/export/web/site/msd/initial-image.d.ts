/**
 * Returns an image and a mask for it, fitted to `height` by `width` pixels as `msd generate --image` does.
 *
 * Transparent pixels are laid over white. The mask counts by its brightness and is fitted in the same way;
 * what is transparent in it is not repainted, whatever its colour. Resampling is Lanczos. Throws
 * 'bad-request' for a mask of another size than the image's, or without an opaque white pixel.
 *
 * @param {Photo} photo
 * @param {number} height
 * @param {number} width
 * @param {{ mask?: Photo | null, fit?: Fit }} [options]
 * @returns {InitialImage}
 */
export function initialImage(photo: Photo, height: number, width: number, { mask, fit }?: {
    mask?: Photo | null;
    fit?: Fit;
}): InitialImage;
/**
 * Returns how much of an image changes where nothing is said: 0.8, and all of what a mask says to repaint, as
 * in diffusers' pipelines.
 *
 * @param {{ mask: unknown }} image
 * @returns {number}
 */
export function strengthOf({ mask }: {
    mask: unknown;
}): number;
/**
 * Returns the pixels of an image with 0 where it is to be repainted, float32 NHWC.
 *
 * @param {InitialImage} image
 * @returns {Float32Array<ArrayBuffer>}
 */
export function maskedPixels({ pixels, mask }: InitialImage): Float32Array<ArrayBuffer>;
/**
 * Pixels as a canvas gives them: four bytes per pixel, row by row, not premultiplied.
 */
export type Photo = {
    rgba: Uint8ClampedArray;
    width: number;
    height: number;
    name?: string;
};
/**
 * Crop the centre to the model's aspect ratio before resizing, or distort the whole image to it.
 */
export type Fit = "crop" | "stretch";
/**
 * An image to begin with, fitted to a model's size: `pixels` is float32 NHWC RGB in [-1, 1], `mask` has a
 * number per pixel, 1 where the image is repainted and 0 where it is kept, or is null. `description` says
 * what was done.
 */
export type InitialImage = {
    pixels: Float32Array<ArrayBuffer>;
    mask: Float32Array<ArrayBuffer> | null;
    width: number;
    height: number;
    description: string;
};
export type Box = import("./raster.js").Box;
