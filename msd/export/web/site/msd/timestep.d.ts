/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').Sinusoids} Sinusoids
 * @typedef {import('./manifest.js').Step} Step
 */
/**
 * Returns what the U-Net takes for a number `t`: float32 sinusoids, half of them cosines, half sines.
 *
 * Ho et al., "Denoising Diffusion Probabilistic Models" (2020). The angle is rounded to float32, as where the
 * network was trained; its cosine is taken in float64.
 *
 * @param {Sinusoids} sinusoids
 * @param {number} t
 * @returns {Float32Array<ArrayBuffer>}
 */
export function embed(sinusoids: Sinusoids, t: number): Float32Array<ArrayBuffer>;
/**
 * Returns the U-Net's input for the timestep of a step, by its name: its sinusoids, or the number itself.
 *
 * @param {AppManifest} manifest
 * @param {Step} step
 * @returns {Record<string, Float32Array<ArrayBuffer>>}
 */
export function timestepInput(manifest: AppManifest, step: Step): Record<string, Float32Array<ArrayBuffer>>;
export type AppManifest = import("./manifest.js").AppManifest;
export type Sinusoids = import("./manifest.js").Sinusoids;
export type Step = import("./manifest.js").Step;
