import { MsdError } from './errors.js';
import { strengthOf } from './initial-image.js';
import { imageFacts } from './manifest.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./manifest.js').Step} Step
 */

const f32 = Math.fround;

/**
 * Returns the next latents and the clean latents after one step, both float32 of the size of `x`.
 *
 * `x` are the latents and `output` is what the network makes of `step.scale`·x. `previousClean` are the clean
 * latents of the step before, null before the first one; `noise` is normal, needed where `step.noise` is not
 * 0. The formulas are those of msd/run/runtime/step.py, each operation rounded to float32 as there.
 *
 * @param {Step} step
 * @param {Float32Array} x
 * @param {Float32Array} output
 * @param {Float32Array | null} [previousClean]
 * @param {Float32Array | null} [noise]
 * @returns {{ next: Float32Array<ArrayBuffer>, clean: Float32Array<ArrayBuffer> }}
 */
export function applyStep(step, x, output, previousClean = null, noise = null) {
  const next = sum(step.latent, x, step.output, output);
  const clean = sum(step.clean_latent, x, step.clean_output, output);
  if (step.clip !== null) clip(clean, f32(step.clip));
  add(step.clean, clean, next);
  add(step.previous, previousClean, next);
  add(step.noise, noise, next);
  return { next, clean };
}

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
export function noised(schedule, index, clean, noise) {
  const step = schedule.steps[index];
  return step ? sum(step.signal, clean, step.sigma, noise) : clean.slice();
}

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
export function scheduleOf(manifest, wishes = {}) {
  const { steps = manifest.schedules[0].count, image } = wishes;
  const begins = image && manifest.image?.initial;
  const { strength = begins ? strengthOf(image) : null } = wishes;
  const schedule = manifest.schedules.find(({ count }) => count === steps);
  if (!schedule) {
    const known = manifest.schedules.map(({ count }) => count).join(', ');
    throw new MsdError('bad-request', `there is no schedule for ${steps} steps; there are ${known}`);
  }
  if (strength !== null) return scheduleFromImage(manifest, steps, strength);
  if (!image && manifest.image?.inpaints) {
    throw new MsdError('bad-request', 'this model repaints a part of an image: give an image and a mask');
  }
  if (!image && manifest.image?.required) {
    throw new MsdError('bad-request', 'this model reads an image beside the prompt: give one');
  }
  return schedule;
}

/**
 * Returns how much of a request's image changes; undefined without one that generation begins from.
 *
 * @param {AppManifest} manifest
 * @param {{ image?: { mask: unknown } | null, strength?: number }} request
 */
export function changed(manifest, { image, strength }) {
  if (!image) return undefined;
  return strength ?? (manifest.image?.initial ? strengthOf(image) : undefined);
}

/**
 * @param {AppManifest} manifest
 * @param {number} steps
 * @param {number} strength
 */
function scheduleFromImage(manifest, steps, strength) {
  if (!imageFacts(manifest).initial) {
    throw new MsdError(
      'bad-request',
      'this model reads an image and does not begin from it: leave strength out',
    );
  }
  const offered = imageFacts(manifest).schedules.filter(({ count }) => count === steps);
  const found = offered.find((one) => one.strength === strength);
  if (found) return found.schedule;
  const known = offered.map((one) => one.strength).join(', ');
  throw new MsdError(
    'bad-request',
    `there is no schedule for ${steps} steps at strength ${strength}; there are ${known}`,
  );
}

/**
 * @param {number} a
 * @param {Float32Array} x
 * @param {number} b
 * @param {Float32Array} y
 */
function sum(a, x, b, y) {
  const [first, second] = [f32(a), f32(b)];
  return x.map((value, i) => f32(first * value) + f32(second * y[i]));
}

/**
 * @param {number} size
 * @param {Float32Array | null} values
 * @param {Float32Array} to
 */
function add(size, values, to) {
  if (size === 0 || !values) return;
  const factor = f32(size);
  for (let i = 0; i < to.length; i++) to[i] += f32(factor * values[i]);
}

/**
 * @param {Float32Array} values
 * @param {number} most
 */
function clip(values, most) {
  for (let i = 0; i < values.length; i++) values[i] = Math.min(Math.max(values[i], -most), most);
}
