const SIDE = 320;

/**
 * Returns a small copy of a picture, its longer side at most 320 pixels, as WebP or what the browser
 * writes instead.
 *
 * @param {Blob} png
 * @returns {Promise<Blob>}
 */
export async function thumbnail(png) {
  const bitmap = await createImageBitmap(png);
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? png), 'image/webp', 0.85));
}
