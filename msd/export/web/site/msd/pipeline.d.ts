/**
 * Returns how much of the initial image changes; undefined without one.
 *
 * @param {Request} request
 */
export function changed({ image, strength }: Request): number | undefined;
export const TEXT_ENCODER: "text_encoder";
export const UNET: "unet";
export const VAE_DECODER: "vae_decoder";
/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').Step} Step
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./start.js').Start} Start
 */
/**
 * What an image should show and how it is made. Without `steps` and `guidance`, those of the manifest are used.
 * After every `previewEvery` steps there is a preview; 0 means none. `image`, with a `mask` if a part of it is to be
 * repainted, begins the generation, of which `strength`, above 0 and at most 1, says how much changes.
 *
 * @typedef {object} Request
 * @property {string} prompt
 * @property {string} [negativePrompt]
 * @property {number | bigint} [seed]
 * @property {number} [steps]
 * @property {number} [guidance]
 * @property {number} [previewEvery]
 * @property {import('./initial-image.js').InitialImage} [image]
 * @property {number} [strength]
 */
/**
 * @typedef {import('./progress.js').Picture} Picture
 * @typedef {import('./progress.js').Watch} Watch
 */
/**
 * Generates the images of one model, one at a time.
 *
 * The text encoder is freed when it has run, the U-Net stays until `trim`, and the decoder is opened during the last
 * step and freed, as in the pipelined execution of arXiv 2307.01193, section 3.3.
 */
export class Pipeline {
    /**
     * @param {AppManifest} app
     * @param {import('./tokenizer.js').Tokenizer} tokenizer
     * @param {import('./open-networks.js').Open} open
     */
    constructor(app: AppManifest, tokenizer: import("./tokenizer.js").Tokenizer, open: import("./open-networks.js").Open);
    /** Frees all networks. */
    trim(): Promise<void>;
    /**
     * Returns an image and its final latents, NHWC.
     *
     * @param {Request} request
     * @param {Watch} [watch]
     * @returns {Promise<Picture & { latents: Float32Array }>}
     * @throws {MsdError} 'bad-request', 'cancelled', or what opening and running networks throws
     */
    generate(request: Request, watch?: Watch): Promise<Picture & {
        latents: Float32Array;
    }>;
    #private;
}
export type AppManifest = import("./manifest.js").AppManifest;
export type ModelFile = import("./manifest.js").ModelFile;
export type Step = import("./manifest.js").Step;
export type Schedule = import("./manifest.js").Schedule;
export type Network = import("./network.js").Network;
export type Start = import("./start.js").Start;
/**
 * What an image should show and how it is made. Without `steps` and `guidance`, those of the manifest are used.
 * After every `previewEvery` steps there is a preview; 0 means none. `image`, with a `mask` if a part of it is to be
 * repainted, begins the generation, of which `strength`, above 0 and at most 1, says how much changes.
 */
export type Request = {
    prompt: string;
    negativePrompt?: string | undefined;
    seed?: number | bigint | undefined;
    steps?: number | undefined;
    guidance?: number | undefined;
    previewEvery?: number | undefined;
    image?: import("./initial-image.js").InitialImage | undefined;
    strength?: number | undefined;
};
export type Picture = import("./progress.js").Picture;
export type Watch = import("./progress.js").Watch;
