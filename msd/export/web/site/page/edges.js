import { edgesOf } from '../msd/canny.js';
import { imageOf, pixels } from '../msd/pixels.js';

/**
 * Draws the edges of what a canvas shows over it.
 *
 * @param {HTMLCanvasElement} canvas
 */
export function drawEdges(canvas) {
  const { width, height } = canvas;
  const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  copy?.drawImage(canvas, 0, 0);
  const shown = copy?.getImageData(0, 0, width, height);
  if (!shown) return;
  shown.data.set(pixels(edgesOf(imageOf(shown.data), width, height)));
  canvas.getContext('2d')?.putImageData(shown, 0, 0);
}
