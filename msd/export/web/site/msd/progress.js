/**
 * A picture: RGBA, four bytes for each pixel, row by row.
 *
 * @typedef {{ rgba: Uint8ClampedArray<ArrayBuffer>, width: number, height: number }} Picture
 */

/**
 * What is being done; at first `remarks` on what of the request is not used as its writer may have meant it.
 * `step` of `steps` runs of the U-Net are done, the last one in `seconds`, with a preview where one was asked
 * for. The upscaler begins with `tile` of `tiles`.
 *
 * @typedef {{ stage: 'fetching', bytes: number, total: number }
 *   | { stage: 'remarks', remarks: string[] }
 *   | { stage: 'loading', network: string }
 *   | { stage: 'encoding' }
 *   | { stage: 'denoising', step: number, steps: number, seconds: number, preview?: Picture }
 *   | { stage: 'decoding' }
 *   | { stage: 'enlarging', tile: number, tiles: number }
 *   | { stage: 'measuring', network: string }} Progress
 */

/**
 * How to follow what takes long, and to end it.
 *
 * @typedef {{ signal?: AbortSignal, onProgress?: (progress: Progress) => void }} Watch
 */
export {};
