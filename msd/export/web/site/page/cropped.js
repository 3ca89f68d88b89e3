export const UNREADABLE =
  'This browser cannot read the file as an image. Choose a JPEG, PNG or WebP file.';

/**
 * Draws an image file into a canvas, its centre cut and over white as the model will see it; throws where the
 * browser cannot read it.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {File} file
 */
export async function drawCropped(canvas, file) {
  const bitmap = await createImageBitmap(file);
  const { width, height } = canvas;
  const scale = Math.max(width / bitmap.width, height / bitmap.height);
  const [drawnWidth, drawnHeight] = [bitmap.width * scale, bitmap.height * scale];
  const context = canvas.getContext('2d');
  if (context) context.fillStyle = 'white';
  context?.fillRect(0, 0, width, height);
  context?.drawImage(bitmap, (width - drawnWidth) / 2, (height - drawnHeight) / 2, drawnWidth, drawnHeight);
  bitmap.close();
}
