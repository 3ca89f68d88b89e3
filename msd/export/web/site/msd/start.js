import { MsdError } from './errors.js';
import { requireFinite } from './finite.js';
import { sourcesOf, wiringOf } from './calls.js';
import { maskedPixels } from './initial-image.js';
import { atCells, hasPixels, rowInputs } from './inputs.js';
import { imageFacts, modelFile } from './manifest.js';
import { posteriorNoise } from './noise.js';
import { noised } from './schedule.js';
import { encodedPixels } from './vae-tiles.js';

/**
 * @typedef {import('./calls.js').Call} Call
 * @typedef {import('./calls.js').Output} Output
 * @typedef {import('./inputs.js').Given} Given
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ImageFacts} ImageFacts
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./initial-image.js').InitialImage} InitialImage
 * @typedef {Record<string, Float32Array>} Values
 */

/**
 * Returns the outputs of a call's network for the inputs of one image.
 *
 * @typedef {(call: Call, inputs: Record<string, Float32Array | Int32Array>) => Promise<Values>} RunCall
 */

/** What encoders of images compute. */
const LATENTS = ['moments', 'latents'];

/** The stream of a seed's noise that latents are sampled with, by the pixels they are of. */
const STREAMS = new Map([['image', 1], ['masked image', 2]]);

/**
 * The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.
 *
 * Image to image after Meng et al., "SDEdit" (2021). Inpainting by a network that takes the mask, or by
 * blending latents in every step.
 */
export class Start {
  #noise;
  #clean;
  #mask;
  #blends;

  /**
   * @param {Float32Array} noise normal noise
   * @param {Float32Array | null} [clean] the latents of the initial image
   * @param {Float32Array | null} [mask] 1 where the image is repainted, one number per cell
   * @param {boolean} [blends] by the mask, which no network takes
   */
  constructor(noise, clean = null, mask = null, blends = true) {
    this.#noise = noise;
    this.#clean = clean;
    this.#mask = mask;
    this.#blends = blends;
  }

  /**
   * Returns the latents before the first step; a mask at full strength starts from noise alone.
   *
   * @param {Schedule} schedule
   * @param {number | null} strength null without an image
   * @returns {Float32Array}
   */
  latents(schedule, strength) {
    const [clean, mask] = [this.#clean, this.#mask];
    if (clean && !(mask && strength === 1)) return this.#noised(schedule, 0, clean);
    const factor = Math.fround(schedule.start);
    return this.#noise.map((value) => value * factor);
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
    const [clean, mask, blends] = [this.#clean, this.#mask, this.#blends];
    if (!clean || !mask || !blends) return latents;
    const known = this.#noised(schedule, index, clean);
    const channels = latents.length / mask.length;
    return latents.map((value, i) => (mask[Math.floor(i / channels)] ? value : known[i]));
  }

  /**
   * @param {Schedule} schedule
   * @param {number} index
   * @param {Float32Array} clean
   */
  #noised(schedule, index, clean) {
    return noised(schedule, index, clean, this.#noise);
  }
}

/**
 * Returns the start of an image from `noise`, and from the `values` of an initial one.
 *
 * The mask of the latents is the mask's pixel at the top left of each cell. Throws 'bad-request' for a model
 * that reads no image, an image of another size, and a model that repaints where there is no mask.
 *
 * @param {AppManifest} manifest
 * @param {InitialImage | null} image
 * @param {Float32Array} noise
 * @param {Values} values
 * @returns {Start}
 */
export function startFrom(manifest, image, noise, values) {
  if (!image) return new Start(noise);
  const { initial, inpaints } = factsFor(manifest, image);
  const mask = image.mask && atCells(image.mask, manifest.latent, manifest);
  return new Start(noise, values[initial ?? ''] ?? null, mask, !inpaints);
}

/**
 * Returns what the calls of images compute of one, by the names of values.
 *
 * @param {AppManifest} manifest
 * @param {InitialImage & { strength?: number }} image
 * @param {number | bigint} seed
 * @param {RunCall} run
 * @returns {Promise<Values>}
 */
export async function encodedImage(manifest, image, seed, run) {
  const { initial, inpaints } = factsFor(manifest, image);
  const pixels = pixelsOf(image);
  /** @type {Values} */
  const values = {};
  for (const call of wiringOf(manifest).ofImages) {
    const begins = call.outputs.some(({ value }) => value === initial);
    if (!hasPixels(call, pixels) || (begins && inpaints && image.strength === 1)) continue;
    const file = modelFile(manifest, call.component);
    const shown = pixels[sourcesOf(call)[0].of ?? ''];
    const outputs = call.outputs.some(({ kind }) => LATENTS.includes(kind))
      ? await encodedPixels(call, file, shown, manifest, (inputs) => run(call, inputs))
      : await run(call, rowInputs(call, file, { pixels, values, numbers: sizesOf(manifest) }));
    for (const output of call.outputs) {
      const latents = latentsOf(manifest, output, outputs[output.tensor], seed, streamOf(call));
      values[output.value] = requireFinite(latents, `The output of the ${file.title}`);
    }
  }
  return values;
}

/**
 * Returns the pixels that networks can take, by the names that sources have for them.
 *
 * @param {InitialImage} image
 * @returns {Record<string, Float32Array>}
 */
export function pixelsOf(image) {
  if (!image.mask) return { image: image.pixels };
  return { image: image.pixels, mask: image.mask, 'masked image': maskedPixels(image) };
}

/** @param {AppManifest} manifest */
function sizesOf({ height, width }) {
  return { timestep: 0, guidance: 0, height, width };
}

/** @param {Call} call */
function streamOf({ inputs }) {
  const names = inputs.flatMap(({ sources }) => sources.map(({ of = '' }) => of));
  return STREAMS.get(names[0]) ?? 0;
}

/**
 * Returns how the model reads an image; throws 'bad-request' where it cannot, or this one does not fit.
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
 * Returns latents of what was computed: sampled, where that are the moments of a distribution; another output
 * as it is.
 *
 * @param {AppManifest} manifest
 * @param {Output} output
 * @param {Float32Array} encoded
 * @param {number | bigint} seed
 * @param {number} stream
 */
function latentsOf(manifest, { kind, factor }, encoded, seed, stream) {
  const channels = manifest.latent[3];
  const cells = manifest.latent[1] * manifest.latent[2];
  const [f32, scale] = [Math.fround, Math.fround(factor)];
  if (kind === 'latents') return encoded.map((value) => scale * value);
  if (kind !== 'moments') return encoded;
  return posteriorNoise(seed, cells * channels, stream).map((noise, i) => {
    const mean = Math.floor(i / channels) * 2 * channels + (i % channels);
    const deviation = f32(Math.exp(encoded[mean + channels] / 2));
    return scale * f32(encoded[mean] + f32(deviation * noise));
  });
}
