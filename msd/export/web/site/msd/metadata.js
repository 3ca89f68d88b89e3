import { guidanceOf } from './guidance.js';
import { changed } from './schedule.js';

/**
 * Returns the texts of a picture's PNG: those that `msd generate` writes, as it writes them.
 *
 * @param {import('./manifest.js').AppManifest} app
 * @param {import('./request.js').Request} request
 * @param {string} backend what ran the networks
 * @param {string[]} remarks
 * @returns {Record<string, string>}
 */
export function metadataOf(app, request, backend, remarks) {
  const scale = request.guidance ?? app.guidance.scale;
  const strength = changed(app, request);
  return {
    prompt: request.prompt,
    negative_prompt: request.negativePrompt ?? '',
    seed: String(request.seed ?? 0),
    steps: String(request.steps ?? app.schedules[0].count),
    guidance: decimal(scale),
    prompt_syntax: 'plain',
    ...(request.controls?.length && controlTexts(request.controls, request.guess)),
    ...(request.upscale && app.upscaler && { upscale: String(app.upscaler.scale) }),
    ...(request.image && { image: request.image.description }),
    ...(strength !== undefined && { strength: decimal(strength) }),
    ...(request.image?.mask && { paste: request.paste === false ? 'False' : 'True' }),
    guidance_mode: guidanceOf(app, scale).mode,
    scheduler: `${app.scheduler}, ${app.prediction}`,
    model: app.model,
    backend,
    software: `msd ${app.versions.msd}`,
    ...(remarks.length && { remarks: remarks.join('\n') }),
  };
}

/**
 * @param {import('./control.js').Control[]} controls
 * @param {boolean} [guess]
 */
function controlTexts(controls, guess) {
  const words = controls.map(({ name, scale = 1, begin = 0, until = 1, description }) => {
    const part = begin === 0 && until === 1 ? '' : `, from ${begin} until ${until}`;
    return `${name} at ${scale}${part} by ${description || 'a picture'}`;
  });
  return { controls: words.join('\n'), guess: guess ? 'True' : 'False' };
}

/**
 * Returns a number as Python prints a float.
 *
 * @param {number} value
 */
function decimal(value) {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
