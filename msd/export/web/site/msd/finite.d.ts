/**
 * Returns `values`; throws 'failed', with a sentence that says what they are, where one is NaN or infinite:
 * no image could follow.
 *
 * @template {Float32Array} T
 * @param {T} values
 * @param {string} what
 * @returns {T}
 */
export function requireFinite<T extends Float32Array>(values: T, what: string): T;
