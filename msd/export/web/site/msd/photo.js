import { MsdError } from './errors.js';

/** @typedef {import('./initial-image.js').Photo} Photo */

/** The pixels of an image or a mask that are read; several copies of them are in memory at once. */
const MOST_PIXELS = 50_000_000;

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
export async function readPhoto(file, name = 'name' in file ? String(file.name) : 'image') {
  const bitmap = await decoded(file, name);
  try {
    const { width, height } = bitmap;
    if (width * height > MOST_PIXELS) {
      const most = `at most ${MOST_PIXELS} in all are read`;
      throw new MsdError('bad-request', `${name} has ${width}×${height} pixels, and ${most}`);
    }
    return { rgba: rgbaOf(bitmap), width, height, name };
  } finally {
    bitmap.close();
  }
}

/**
 * @param {Blob} file
 * @param {string} name
 */
async function decoded(file, name) {
  try {
    return await createImageBitmap(file, {
      imageOrientation: 'from-image',
      premultiplyAlpha: 'none',
      colorSpaceConversion: 'none',
    });
  } catch (problem) {
    throw new MsdError('bad-request', `${name} is no image that this browser can read`, problem);
  }
}

/** @param {ImageBitmap} bitmap */
function rgbaOf(bitmap) {
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (!context) throw new MsdError('failed', 'this browser gave no canvas to read the image with');
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, bitmap.width, bitmap.height).data;
}
