/**
 * The guidance of one image. `rows` of the U-Net in a step are 2 where the first is the one without the
 * prompt.
 *
 * @typedef {object} Guidance
 * @property {GuidanceMode} mode
 * @property {number} scale
 * @property {1 | 2} rows
 * @property {(prompt: string, negativePrompt: string) => string[]} prompts the text of each row
 * @property {(outputs: Float32Array[]) => Float32Array} combine the guided output of the rows' outputs
 * @property {() => Record<string, Float32Array<ArrayBuffer>>} inputs what the U-Net takes for the scale
 */
/**
 * Returns the guidance of one image by this model; a scale of 1 or less means none, unless it is embedded.
 *
 * With two rows: Ho and Salimans, "Classifier-Free Diffusion Guidance" (2022). With a U-Net that takes the
 * scale: Meng et al., "On Distillation of Guided Diffusion Models" (2022).
 *
 * @param {AppManifest} manifest
 * @param {number} [scale] the manifest's where it is left out
 * @returns {Guidance}
 */
export function guidanceOf(manifest: AppManifest, scale?: number): Guidance;
/**
 * The guidance of one image. `rows` of the U-Net in a step are 2 where the first is the one without the
 * prompt.
 */
export type Guidance = {
    mode: GuidanceMode;
    scale: number;
    rows: 1 | 2;
    /**
     * the text of each row
     */
    prompts: (prompt: string, negativePrompt: string) => string[];
    /**
     * the guided output of the rows' outputs
     */
    combine: (outputs: Float32Array[]) => Float32Array;
    /**
     * what the U-Net takes for the scale
     */
    inputs: () => Record<string, Float32Array<ArrayBuffer>>;
};
export type AppManifest = import("./manifest.js").AppManifest;
export type GuidanceMode = import("./manifest.js").GuidanceMode;
