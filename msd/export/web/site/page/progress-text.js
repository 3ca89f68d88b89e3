import { duration, megabytes } from './quantity.js';

/** @typedef {import('./protocol.js').Progress} Progress */

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
      return `Compiling the ${progress.network}`;
    case 'remarks':
    case 'encoding':
      return 'Reading the prompt';
    case 'denoising':
      return denoising(progress);
    case 'decoding':
      return 'Decoding';
    case 'enlarging':
      return `Enlarging part ${progress.tile} of ${progress.tiles}`;
    case 'measuring':
      return `Measuring the ${progress.network}`;
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
    case 'enlarging':
      return (progress.tile - 1) / progress.tiles;
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
