/**
 * Returns the pixels of an image file, upright as its EXIF orientation says, in the colours that the file
 * has.
 *
 * Throws 'bad-request' for a file that the browser cannot read as an image, or with more than 50 million
 * pixels.
 *
 * @param {Blob} file
 * @param {string} [name] of the file, for messages; a File's own where it is left out
 * @returns {Promise<Photo>}
 */
export function readPhoto(file: Blob, name?: string): Promise<Photo>;
export type Photo = import("./initial-image.js").Photo;
