/**
 * Returns the manifest that the text of sd-manifest.json is.
 *
 * Throws 'bad-manifest' for a text that is no JSON, of another format, or lacks what generating needs.
 *
 * @param {string} json
 * @returns {AppManifest}
 */
export function parseAppManifest(json: string): AppManifest;
/**
 * Returns the file with a role; throws 'bad-manifest' where the manifest lists none.
 *
 * @param {AppManifest} manifest
 * @param {string} role
 * @returns {ModelFile}
 */
export function modelFile(manifest: AppManifest, role: string): ModelFile;
/**
 * Returns how the model begins from an image; throws 'bad-request' where it cannot.
 *
 * @param {AppManifest} manifest
 * @returns {ImageFacts}
 */
export function imageFacts({ image }: AppManifest): ImageFacts;
export { parseWebManifest } from "./web-manifest.js";
export type WebManifest = import("./web-manifest.js").WebManifest;
export type WebFile = import("./web-manifest.js").WebFile;
export type WebProgram = import("./web-manifest.js").WebProgram;
export type WebNetwork = import("./web-manifest.js").WebNetwork;
export type ExpectedOutputs = import("./web-manifest.js").ExpectedOutputs;
export type LiteRtJs = import("./web-manifest.js").LiteRtJs;
/**
 * An input or output of a network; `layout` is 'NHWC' for images and latents.
 */
export type Port = {
    name: string;
    shape: number[];
    dtype: "float32" | "int32";
    layout: string;
};
/**
 * A file of the model: `role` is a network's, or 'vocabulary' or 'merges', which have no signature.
 */
export type ModelFile = {
    name: string;
    role: string;
    bytes: number;
    sha256: string;
    signature: string | null;
    inputs: Port[];
    outputs: Port[];
};
/**
 * The coefficients of one step, with latents x, the network's output o and the last clean latents p.
 *
 * The network's input is `scale`·x. The clean latents are c = `clean_latent`·x + `clean_output`·o, clipped to
 * ±`clip` where that is set. The next latents are `latent`·x + `output`·o + `clean`·c + `previous`·p +
 * `noise`·n, with normal noise n. Latents before this step are `signal`·k + `sigma`·n for known clean latents
 * k.
 */
export type Step = {
    timestep: number;
    latent: number;
    output: number;
    clean: number;
    clean_latent: number;
    clean_output: number;
    clip: number | null;
    previous: number;
    noise: number;
    scale: number;
    signal: number;
    sigma: number;
};
/**
 * The steps of one image, `count` of them in order; it begins with normal noise times `start`.
 */
export type Schedule = {
    count: number;
    start: number;
    steps: Step[];
};
/**
 * The schedule of an image that begins from an image, for `count` steps of which `strength` leaves some.
 */
export type ImageSchedule = {
    count: number;
    strength: number;
    schedule: Schedule;
};
/**
 * How a model begins from an image: the role of the network that encodes it, the factor of its latents, and
 * whether the U-Net takes a mask and the masked image beside the latents.
 */
export type ImageFacts = {
    encoder: string;
    scaling_factor: number;
    inpaints: boolean;
    schedules: ImageSchedule[];
};
/**
 * An input of the U-Net made of one number: the cosines and sines of it times each of `frequencies`.
 */
export type Sinusoids = {
    input: string;
    width: number;
    cosine_first: boolean;
    frequencies: number[];
};
export type GuidanceMode = "two passes" | "batch 2" | "embedding" | "none";
/**
 * The guidance mode at `scale`, the model's default; `embedding` if the U-Net has that input.
 */
export type GuidanceFacts = {
    mode: GuidanceMode;
    scale: number;
    embedding?: Sinusoids | null | undefined;
};
/**
 * A token that is matched before the text is split into words, after lower-casing it if `normalized`;
 * `further` are the ids after `id` of a token with several vectors.
 */
export type SpecialToken = {
    content: string;
    id: number;
    normalized: boolean;
    further: number[];
};
/**
 * The ids of the start, end, unknown and padding tokens, the tokens of a text, and the special tokens.
 */
export type TokenizerFacts = {
    start: number;
    end: number;
    unknown: number;
    pad: number;
    length: number;
    specials: SpecialToken[];
};
/**
 * The origin of the weights: the checkpoint's kind and name, its files' SHA-256, and its licence if that is
 * known.
 */
export type WeightsOrigin = {
    kind: string;
    name: string;
    sha256: Record<string, string>;
    licence?: string | null | undefined;
};
/**
 * The content of sd-manifest.json, as far as the page reads it (msd/export/app/manifest.py).
 *
 * `height` and `width` are in pixels, `latent` is NHWC. The U-Net takes `prompt_chunks` outputs of the text
 * encoder, one after the other. `timestep` is null where the U-Net's input is the number itself. `preview` is
 * the role of the network that decodes previews, `image` says how the model begins from an image; null where
 * it does neither.
 */
export type AppManifest = {
    format: number;
    model: string;
    files: ModelFile[];
    height: number;
    width: number;
    latent: number[];
    prediction: string;
    scheduler: string;
    schedules: Schedule[];
    timestep?: Sinusoids | null | undefined;
    guidance: GuidanceFacts;
    tokenizer: TokenizerFacts;
    recipe: string;
    precision: string;
    /**
     * of the converter, 'msd', and its libraries
     */
    versions: Record<string, string>;
    weights: WeightsOrigin;
    /**
     * in bytes
     */
    min_memory: number;
    preview?: string | null | undefined;
    image?: ImageFacts | null | undefined;
    prompt_chunks: number;
};
