export const UNREADABLE =
  'This browser cannot read the file as an image. Choose a JPEG, PNG or WebP file.';

/**
 * Returns what an image file shows; null for no file, and where the browser cannot read it.
 *
 * A file chosen later may be decoded sooner: the caller asks whether this one is still wanted.
 *
 * @param {File | null} file
 */
export async function decoded(file) {
  return file && (await createImageBitmap(file).catch(() => null));
}

/**
 * Draws an image into a canvas, its centre cut and over white as the model will see it, and frees it.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {ImageBitmap} bitmap
 */
export function drawCropped(canvas, bitmap) {
  const { width, height } = canvas;
  const scale = Math.max(width / bitmap.width, height / bitmap.height);
  const [drawnWidth, drawnHeight] = [bitmap.width * scale, bitmap.height * scale];
  const context = canvas.getContext('2d');
  if (context) context.fillStyle = 'white';
  context?.fillRect(0, 0, width, height);
  context?.drawImage(bitmap, (width - drawnWidth) / 2, (height - drawnHeight) / 2, drawnWidth, drawnHeight);
  bitmap.close();
}
