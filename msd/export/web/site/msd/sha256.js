/**
 * Returns the SHA-256 of bytes, as 64 lower-case hex digits.
 *
 * @param {BufferSource} bytes
 * @returns {Promise<string>}
 */
export async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
