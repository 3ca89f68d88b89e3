import { MsdError } from './errors.js';
import { checkedSeed } from './noise.js';

/** @typedef {import('./pipeline.js').Request} Request */

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
