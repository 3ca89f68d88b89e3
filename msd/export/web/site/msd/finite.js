import { MsdError } from './errors.js';

/**
 * Returns `values`; throws 'failed', with a sentence that says what they are, where one is NaN or infinite:
 * no image could follow.
 *
 * @template {Float32Array} T
 * @param {T} values
 * @param {string} what
 * @returns {T}
 */
export function requireFinite(values, what) {
  let wrong = 0;
  for (const value of values) if (!Number.isFinite(value)) wrong++;
  if (wrong === 0) return values;
  throw new MsdError(
    'failed',
    `${what} has ${wrong} of ${values.length} values that are NaN or infinite, so no image was made;` +
      ' less guidance or another scheduler may help',
  );
}
