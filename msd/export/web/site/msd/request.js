import { MsdError } from './errors.js';
import { checkedSeed } from './noise.js';

/**
 * What an image should show and how it is made. Without `steps` and `guidance`, those of the manifest are
 * used. After every `previewEvery` steps there is a preview; 0 means none. `image`, with a `mask` if a part
 * of it is to be repainted, begins the generation, of which `strength`, above 0 and at most 1, says how much
 * changes. What the mask keeps is pasted back, unless `paste` is false. ControlNets steer by the pictures of
 * `controls`; with `guess`, although the prompt does not describe them. `upscale`, true or the scale of the
 * model's upscaler, enlarges the picture.
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
 * @property {boolean} [paste]
 * @property {import('./control.js').Control[]} [controls]
 * @property {boolean} [guess]
 * @property {number | boolean} [upscale]
 */

/** Bounds far beyond what is of use, as in msd/bounds.py; of prompts in letters. */
const MOST_GUIDANCE = 1000;
const MOST_PROMPT = 20_000;

/**
 * Throws 'bad-request' for what no model can do: a seed, guidance or a prompt beyond the bounds, a number of
 * steps between previews that is none, a strength without an image, or no `paste` where there is no mask.
 *
 * @param {Request} request
 */
export function checkRequest(request) {
  const { prompt, negativePrompt = '', seed = 0, guidance = 0, previewEvery = 0 } = request;
  checkedSeed(seed);
  for (const text of [prompt, negativePrompt]) requirePrompt(text);
  if (!(Math.abs(guidance) <= MOST_GUIDANCE)) {
    throw new MsdError('bad-request', `guidance ${guidance} should be a number up to ${MOST_GUIDANCE}`);
  }
  if (!Number.isInteger(previewEvery) || previewEvery < 0) {
    throw new MsdError('bad-request', `previews after every ${previewEvery} steps are impossible`);
  }
  if (request.strength !== undefined && !request.image) {
    throw new MsdError('bad-request', 'a strength says how much of an image changes; give the image too');
  }
  if (request.paste === false && !request.image?.mask) {
    throw new MsdError('bad-request', 'without a mask no pixels are pasted back: leave out paste: false');
  }
}

/** @param {string} text */
function requirePrompt(text) {
  if (typeof text !== 'string') throw new MsdError('bad-request', 'the prompt should be a text');
  const count = text.length <= MOST_PROMPT ? 0 : Array.from(text).length;
  if (count <= MOST_PROMPT) return;
  throw new MsdError('bad-request', `a prompt has ${count} letters, and at most ${MOST_PROMPT} are read`);
}
