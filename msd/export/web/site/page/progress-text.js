import { duration, megabytes } from './quantity.js';

/** @typedef {import('./protocol.js').Progress} Progress */

const NETWORKS = new Map([
  ['unet', 'the U-Net'],
  ['vae_decoder', 'the decoder'],
  ['vae_encoder', 'the image encoder'],
]);

/**
 * Returns what a network is called: "the U-Net" for "unet", "the text encoder" for "text_encoder".
 *
 * @param {string} role
 */
export function networkName(role) {
  return NETWORKS.get(role) ?? `the ${role.replaceAll('_', ' ')}`;
}

/**
 * Returns what is being done, in words: "Step 7 of 20, 1.2 s each, 16 s left".
 *
 * @param {Progress} progress
 */
export function progressText(progress) {
  switch (progress.stage) {
    case 'fetching':
      return `Fetching ${megabytes(progress.bytes)} of ${megabytes(progress.total)} MB`;
    case 'loading':
      return `Compiling ${networkName(progress.network)}`;
    case 'encoding':
      return 'Reading the prompt';
    case 'denoising':
      return denoising(progress);
    case 'decoding':
      return 'Decoding';
    case 'measuring':
      return `Measuring ${networkName(progress.network)}`;
  }
}

/**
 * Returns how much is done, 0 … 1; null where nobody can tell.
 *
 * @param {Progress} progress
 * @returns {number | null}
 */
export function progressFraction(progress) {
  switch (progress.stage) {
    case 'fetching':
      return progress.total ? progress.bytes / progress.total : null;
    case 'denoising':
      return progress.step / progress.steps;
    default:
      return null;
  }
}

/** @param {Extract<Progress, { stage: 'denoising' }>} progress */
function denoising({ step, steps, seconds }) {
  if (!step) return `Step 1 of ${steps}`;
  const left = seconds * (steps - step);
  return `Step ${step} of ${steps}, ${duration(seconds)} each${left ? `, ${duration(left)} left` : ''}`;
}
