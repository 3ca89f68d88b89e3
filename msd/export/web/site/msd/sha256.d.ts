/**
 * Returns the SHA-256 of bytes, as 64 lower-case hex digits.
 *
 * @param {BufferSource} bytes
 * @returns {Promise<string>}
 */
export function sha256(bytes: BufferSource): Promise<string>;
