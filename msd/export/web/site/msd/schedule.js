import { MsdError } from './errors.js';
import { strengthOf } from './initial-image.js';
import { imageFacts } from './manifest.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./manifest.js').Step} Step
 */

/**
 * What a step leaves to the steps that follow: the clean latents that its output implied, what it and the
 * steps before it kept, newest first, and saved latents, null before a step has saved any.
 *
 * @typedef {object} StepMemory
 * @property {Float32Array<ArrayBuffer>} clean
 * @property {Float32Array[]} kept
 * @property {Float32Array | null} saved
 */

const f32 = Math.fround;

/**
 * Returns the next latents, float32 of the size of `x`, and what the next step needs of this one.
 *
 * `x` are the latents and `output` is what the network makes of `step.scale`·x. `memory` is what the step
 * before returned, null before the first one; `noise` is normal, needed where the step `takesNoise`. The
 * formulas are those of msd/run/runtime/step.py, each operation rounded to float32 as there.
 *
 * @param {Step} step
 * @param {Float32Array} x
 * @param {Float32Array} output
 * @param {StepMemory | null} [memory]
 * @param {Float32Array | null} [noise]
 * @returns {{ next: Float32Array<ArrayBuffer>, memory: StepMemory }}
 */
export function applyStep(step, x, output, memory = null, noise = null) {
  const [kept, before] = [memory?.kept ?? [], memory?.saved ?? null];
  const saved = step.save.length ? saves(step.save, x, [output, noise, before, ...kept]) : before;
  const next = sum(step.latent, x, step.output, output);
  const clean = sum(step.clean_latent, x, step.clean_output, output);
  if (step.clip !== null) clip(clean, f32(step.clip));
  add(step.clean, clean, next);
  add(step.saved, saved, next);
  step.history.forEach((size, i) => add(size, kept[i] ?? null, next));
  add(step.noise, noise, next);
  const keeping = step.keeps ? [keeps(step, x, output, clean), ...kept].slice(0, step.keeps) : [];
  return { next, memory: { clean, kept: keeping, saved } };
}

/**
 * Returns whether noise is added to the next latents, or to the saved ones.
 *
 * @param {Step} step
 */
export function takesNoise({ noise, save }) {
  return noise !== 0 || (save[2] ?? 0) !== 0;
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
    throw new MsdError('bad-request', `there is no schedule for ${counted(steps)}; there are ${known}`);
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
  const offered = imageFacts(manifest).schedules.filter(({ schedule }) => schedule.count === steps);
  const found = offered.find((one) => one.strength === strength);
  if (found) return found.schedule;
  const known = offered.map((one) => one.strength).join(', ');
  throw new MsdError(
    'bad-request',
    `there is no schedule for ${counted(steps)} at strength ${strength}; there are ${known}`,
  );
}

/**
 * Returns what a step saves: the latents and others, each times its size.
 *
 * @param {number[]} sizes
 * @param {Float32Array} x
 * @param {(Float32Array | null)[]} others
 */
function saves([size, ...sizes], x, others) {
  const factor = f32(size);
  const total = x.map((value) => factor * value);
  sizes.forEach((each, i) => add(each, others[i] ?? null, total));
  return total;
}

/**
 * @param {Step} step
 * @param {Float32Array} x
 * @param {Float32Array} output
 * @param {Float32Array} clean
 */
function keeps(step, x, output, clean) {
  if (step.kept_latent === 0 && step.kept_output === 0) return clean;
  return sum(step.kept_latent, x, step.kept_output, output);
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

/** @param {number} steps */
function counted(steps) {
  return `${steps} step${steps === 1 ? '' : 's'}`;
}
