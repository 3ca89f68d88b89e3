import { takes, wiringOf } from './calls.js';
import { modelFile } from './manifest.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').GuidanceMode} GuidanceMode
 */

/** The guidance scale is embedded like a timestep, multiplied by this factor. */
const EMBEDDING_FACTOR = 1000;

/**
 * The guidance of one image. `rows` of the denoiser in a step are 2 where the first is the one without the
 * prompt. `number` is what the sinusoids of guidance are of.
 *
 * @typedef {object} Guidance
 * @property {GuidanceMode} mode
 * @property {number} scale
 * @property {1 | 2} rows
 * @property {number} number
 * @property {(prompt: string, negativePrompt: string) => string[]} prompts the text of each row
 * @property {(outputs: Float32Array[]) => Float32Array} combine the guided output of the rows' outputs
 */

/**
 * Returns the guidance of one image by this model; a scale of 1 or less means none, unless it is embedded.
 *
 * With two rows: Ho and Salimans, "Classifier-Free Diffusion Guidance" (2022). With a denoiser that takes the
 * scale: Meng et al., "On Distillation of Guided Diffusion Models" (2022).
 *
 * @param {AppManifest} manifest
 * @param {number} [scale] the manifest's where it is left out
 * @returns {Guidance}
 */
export function guidanceOf(manifest, scale = manifest.guidance.scale) {
  const mode = modeOf(manifest, scale);
  const rows = mode === 'two passes' || mode === 'batch 2' ? 2 : 1;
  return {
    mode,
    scale,
    rows,
    number: EMBEDDING_FACTOR * (scale - 1),
    prompts: (prompt, negativePrompt) => (rows === 2 ? [negativePrompt, prompt] : [prompt]),
    combine: (outputs) => (rows === 2 ? guided(outputs[0], outputs[1], scale) : outputs[0]),
  };
}

/**
 * @param {AppManifest} manifest
 * @param {number} scale
 * @returns {GuidanceMode}
 */
function modeOf(manifest, scale) {
  if (takes(manifest, 'guidance')) return 'embedding';
  if (scale <= 1) return 'none';
  const { denoiser } = wiringOf(manifest);
  const made = denoiser.outputs.find(({ kind }) => kind === 'prediction');
  const { outputs } = modelFile(manifest, denoiser.component);
  const predicted = outputs.find(({ name }) => name === made?.tensor);
  return predicted?.shape[0] === 1 ? 'two passes' : 'batch 2';
}

/**
 * @param {Float32Array} away
 * @param {Float32Array} towards
 * @param {number} scale
 */
function guided(away, towards, scale) {
  const f32 = Math.fround;
  const factor = f32(scale);
  return away.map((value, i) => value + f32(factor * f32(towards[i] - value)));
}
