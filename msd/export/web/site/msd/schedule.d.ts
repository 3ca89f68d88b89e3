/**
 * Returns the next latents and the clean latents after one step, both float32 of the size of `x`.
 *
 * `x` are the latents and `output` is what the network makes of `step.scale`·x. `previousClean` are the clean
 * latents of the step before, null before the first one; `noise` is normal, needed where `step.noise` is not
 * 0. The formulas are those of msd/runtime/step.py, each operation rounded to float32 as there.
 *
 * @param {Step} step
 * @param {Float32Array} x
 * @param {Float32Array} output
 * @param {Float32Array | null} [previousClean]
 * @param {Float32Array | null} [noise]
 * @returns {{ next: Float32Array<ArrayBuffer>, clean: Float32Array<ArrayBuffer> }}
 */
export function applyStep(step: Step, x: Float32Array, output: Float32Array, previousClean?: Float32Array | null, noise?: Float32Array | null): {
    next: Float32Array<ArrayBuffer>;
    clean: Float32Array<ArrayBuffer>;
};
/**
 * Returns known clean latents as they are before step `index`, with normal `noise` over them; after the last
 * step, without noise. Float32 of the size of `clean`.
 *
 * @param {Schedule} schedule
 * @param {number} index
 * @param {Float32Array} clean
 * @param {Float32Array} noise
 * @returns {Float32Array<ArrayBuffer>}
 */
export function noised(schedule: Schedule, index: number, clean: Float32Array, noise: Float32Array): Float32Array<ArrayBuffer>;
/**
 * Returns the schedule for a number of steps, the manifest's first where `steps` is left out; with an `image`
 * to begin with or a `strength`, that of an image that begins from an image.
 *
 * Throws 'bad-request', which says what there is, where the manifest has no such schedule, and for a model
 * that repaints a part of an image where there is none.
 *
 * @param {AppManifest} manifest
 * @param {{ steps?: number, strength?: number, image?: { mask: unknown } | null }} [wishes]
 * @returns {Schedule}
 */
export function scheduleOf(manifest: AppManifest, wishes?: {
    steps?: number;
    strength?: number;
    image?: {
        mask: unknown;
    } | null;
}): Schedule;
export type AppManifest = import("./manifest.js").AppManifest;
export type Schedule = import("./manifest.js").Schedule;
export type Step = import("./manifest.js").Step;
