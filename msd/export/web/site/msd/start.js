import { MsdError } from './errors.js';
import { maskedPixels } from './initial-image.js';
import { imageFacts } from './manifest.js';
import { posteriorNoise } from './noise.js';
import { noised } from './schedule.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ImageFacts} ImageFacts
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./initial-image.js').InitialImage} InitialImage
 */

/**
 * Returns the image encoder's first output for pixels, float32 NHWC of one image.
 *
 * @typedef {(pixels: Float32Array<ArrayBuffer>) => Promise<Float32Array>} RunEncoder
 */

const [IMAGE_STREAM, MASKED_STREAM] = [1, 2];

/**
 * The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.
 *
 * Image to image after Meng et al., "SDEdit" (2021). Inpainting by a U-Net that takes the mask and the masked
 * image, or by blending latents in every step.
 */
export class Start {
  /**
   * @param {Float32Array} noise normal noise
   * @param {Float32Array | null} [clean] the latents of the initial image
   * @param {Float32Array | null} [mask] 1 where the image is repainted, one number per cell
   * @param {Float32Array | null} [condition] what the U-Net takes beside the latents of each cell
   */
  constructor(noise, clean = null, mask = null, condition = null) {
    /** @private */
    this.noise = noise;
    /** @private */
    this.clean = clean;
    /** @private */
    this.mask = mask;
    /** @private */
    this.condition = condition;
  }

  /**
   * Returns the latents before the first step; a mask at full strength starts from noise alone.
   *
   * @param {Schedule} schedule
   * @param {number | null} strength null without an image
   * @returns {Float32Array}
   */
  latents(schedule, strength) {
    const { clean, mask } = this;
    if (clean && !(mask && strength === 1)) return this.noised(schedule, 0, clean);
    const factor = Math.fround(schedule.start);
    return this.noise.map((value) => value * factor);
  }

  /**
   * Returns the latents before step `index` with those that the mask keeps put back, by blending.
   *
   * @param {Float32Array} latents
   * @param {Schedule} schedule
   * @param {number} index
   * @returns {Float32Array}
   */
  keep(latents, schedule, index) {
    const { clean, mask, condition } = this;
    if (!clean || !mask || condition) return latents;
    const known = this.noised(schedule, index, clean);
    const channels = latents.length / mask.length;
    return latents.map((value, i) => (mask[Math.floor(i / channels)] ? value : known[i]));
  }

  /**
   * Returns the U-Net's input: scaled latents, and for each cell what it takes beside them.
   *
   * @param {Float32Array} scaled
   * @param {number} cells
   * @returns {Float32Array}
   */
  input(scaled, cells) {
    return this.condition ? besides(scaled, this.condition, cells) : scaled;
  }

  /**
   * @private
   * @param {Schedule} schedule
   * @param {number} index
   * @param {Float32Array} clean
   */
  noised(schedule, index, clean) {
    return noised(schedule, index, clean, this.noise);
  }
}

/**
 * Returns the start of an image; `noise` is what it begins with for this seed, `initial` an image to begin
 * with.
 *
 * The mask of the latents is the mask's pixel at the top left of each cell. Throws 'bad-request' for a model
 * that begins from no image, an image of another size, and a model that repaints where there is no mask.
 *
 * @param {AppManifest} manifest
 * @param {(InitialImage & { strength: number }) | null} initial
 * @param {number | bigint} seed
 * @param {Float32Array} noise
 * @param {RunEncoder} run
 * @returns {Promise<Start>}
 */
export async function startFrom(manifest, initial, seed, noise, run) {
  if (!initial) return new Start(noise);
  const facts = factsFor(manifest, initial);
  const mask = initial.mask && cellsOf(manifest, initial.mask);
  /** @param {Float32Array<ArrayBuffer>} pixels @param {number} stream */
  const encode = async (pixels, stream) => latentsOf(manifest, facts, await run(pixels), seed, stream);
  if (!mask || !facts.inpaints) return new Start(noise, await encode(initial.pixels, IMAGE_STREAM), mask);
  const clean = initial.strength === 1 ? null : await encode(initial.pixels, IMAGE_STREAM);
  const masked = await encode(maskedPixels(initial), MASKED_STREAM);
  return new Start(noise, clean, mask, besides(mask, masked, mask.length));
}

/**
 * Returns how the model begins from an image; throws 'bad-request' where it cannot, or this one does not fit.
 *
 * @param {AppManifest} manifest
 * @param {InitialImage} image
 * @returns {ImageFacts}
 */
export function factsFor(manifest, image) {
  const facts = imageFacts(manifest);
  const { width, height } = manifest;
  if (image.width !== width || image.height !== height) {
    const size = `${image.width}×${image.height} pixels; it should have ${width}×${height}`;
    throw new MsdError('bad-request', `the image has ${size}`);
  }
  if (facts.inpaints && !image.mask) {
    throw new MsdError('bad-request', 'this model repaints a part of an image: give a mask');
  }
  return facts;
}

/**
 * Returns latents of what the encoder computed: sampled, where that are the moments of a distribution.
 *
 * @param {AppManifest} manifest
 * @param {ImageFacts} facts
 * @param {Float32Array} encoded
 * @param {number | bigint} seed
 * @param {number} stream
 */
function latentsOf(manifest, { scaling_factor: factor }, encoded, seed, stream) {
  const channels = manifest.latent[3];
  const cells = manifest.latent[1] * manifest.latent[2];
  const [f32, scale] = [Math.fround, Math.fround(factor)];
  if (encoded.length === cells * channels) return encoded.map((value) => scale * value);
  return posteriorNoise(seed, cells * channels, stream).map((noise, i) => {
    const mean = Math.floor(i / channels) * 2 * channels + (i % channels);
    const deviation = f32(Math.exp(encoded[mean + channels] / 2));
    return scale * f32(encoded[mean] + f32(deviation * noise));
  });
}

/**
 * @param {AppManifest} manifest
 * @param {Float32Array} mask
 */
function cellsOf({ width, height, latent }, mask) {
  const [, rows, columns] = latent;
  const [down, across] = [height / rows, width / columns];
  return Float32Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    return mask[row * down * width + column * across];
  });
}

/**
 * Returns the channels of one array and then those of another in each cell.
 *
 * @param {Float32Array} first
 * @param {Float32Array} second
 * @param {number} cells
 */
function besides(first, second, cells) {
  const [own, further] = [first.length / cells, second.length / cells];
  const joined = new Float32Array(first.length + second.length);
  for (let cell = 0; cell < cells; cell++) {
    joined.set(first.subarray(cell * own, (cell + 1) * own), cell * (own + further));
    joined.set(second.subarray(cell * further, (cell + 1) * further), cell * (own + further) + own);
  }
  return joined;
}
