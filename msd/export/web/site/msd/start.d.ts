/**
 * Returns the start of an image; `noise` is what it begins with for this seed, `initial` an image to begin with.
 *
 * The mask of the latents is the mask's pixel at the top left of each cell. Throws 'bad-request' for a model
 * that begins from no image, an image of another size, and a model that repaints where there is no mask.
 *
 * @param {AppManifest} manifest
 * @param {(InitialImage & { strength: number }) | null} initial
 * @param {number | bigint} seed
 * @param {Float32Array} noise
 * @param {RunEncoder} run
 * @returns {Promise<Start>}
 */
export function startFrom(manifest: AppManifest, initial: (InitialImage & {
    strength: number;
}) | null, seed: number | bigint, noise: Float32Array, run: RunEncoder): Promise<Start>;
/**
 * Returns how the model begins from an image; throws 'bad-request' where it cannot, or this one does not fit.
 *
 * @param {AppManifest} manifest
 * @param {InitialImage} image
 * @returns {ImageFacts}
 */
export function factsFor(manifest: AppManifest, image: InitialImage): ImageFacts;
/**
 * The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.
 *
 * Image to image after Meng et al., "SDEdit" (2021). Inpainting by a U-Net that takes the mask and the masked
 * image, or by blending latents in every step.
 */
export class Start {
    /**
     * @param {Float32Array} noise normal noise
     * @param {Float32Array | null} [clean] the latents of the initial image
     * @param {Float32Array | null} [mask] 1 where the image is repainted, one number per cell
     * @param {Float32Array | null} [condition] what the U-Net takes beside the latents of each cell
     */
    constructor(noise: Float32Array, clean?: Float32Array | null, mask?: Float32Array | null, condition?: Float32Array | null);
    /** @private */
    private noise;
    /** @private */
    private clean;
    /** @private */
    private mask;
    /** @private */
    private condition;
    /**
     * Returns the latents before the first step; a mask at full strength starts from noise alone.
     *
     * @param {Schedule} schedule
     * @param {number | null} strength null without an image
     * @returns {Float32Array}
     */
    latents(schedule: Schedule, strength: number | null): Float32Array;
    /**
     * Returns the latents before step `index` with those that the mask keeps put back, by blending.
     *
     * @param {Float32Array} latents
     * @param {Schedule} schedule
     * @param {number} index
     * @returns {Float32Array}
     */
    keep(latents: Float32Array, schedule: Schedule, index: number): Float32Array;
    /**
     * Returns the U-Net's input: scaled latents, and for each cell what it takes beside them.
     *
     * @param {Float32Array} scaled
     * @param {number} cells
     * @returns {Float32Array}
     */
    input(scaled: Float32Array, cells: number): Float32Array;
    /**
     * @private
     * @param {Schedule} schedule
     * @param {number} index
     * @param {Float32Array} clean
     */
    private noised;
}
export type AppManifest = import("./manifest.js").AppManifest;
export type ImageFacts = import("./manifest.js").ImageFacts;
export type Schedule = import("./manifest.js").Schedule;
export type InitialImage = import("./initial-image.js").InitialImage;
/**
 * Returns the image encoder's first output for pixels, float32 NHWC of one image.
 */
export type RunEncoder = (pixels: Float32Array<ArrayBuffer>) => Promise<Float32Array>;
