import { MsdError, checkCancelled } from './errors.js';
import { requireFinite } from './finite.js';
import { guidanceOf } from './guidance.js';
import { strengthOf } from './initial-image.js';
import { noise } from './noise.js';
import { OpenNetworks } from './open-networks.js';
import { pixels } from './pixels.js';
import { checkRequest } from './request.js';
import { joined, runRows } from './rows.js';
import { applyStep, scheduleOf } from './schedule.js';
import { factsFor, startFrom } from './start.js';
import { timestepInput } from './timestep.js';

export const TEXT_ENCODER = 'text_encoder';
export const UNET = 'unet';
export const VAE_DECODER = 'vae_decoder';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').Step} Step
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./start.js').Start} Start
 */

/**
 * What an image should show and how it is made. Without `steps` and `guidance`, those of the manifest are
 * used. After every `previewEvery` steps there is a preview; 0 means none. `image`, with a `mask` if a part
 * of it is to be repainted, begins the generation, of which `strength`, above 0 and at most 1, says how much
 * changes.
 *
 * @typedef {object} Request
 * @property {string} prompt
 * @property {string} [negativePrompt]
 * @property {number | bigint} [seed]
 * @property {number} [steps]
 * @property {number} [guidance]
 * @property {number} [previewEvery]
 * @property {import('./initial-image.js').InitialImage} [image]
 * @property {number} [strength]
 */

/**
 * @typedef {import('./progress.js').Picture} Picture
 * @typedef {import('./progress.js').Watch} Watch
 */

/**
 * Generates the images of one model, one at a time.
 *
 * The text encoder is freed when it has run, the U-Net stays until `trim`, and the decoder is opened during
 * the last step and freed, as in the pipelined execution of arXiv 2307.01193, section 3.3.
 */
export class Pipeline {
  #app;
  #tokenizer;
  #networks;
  /** @type {Map<string, Float32Array>} */
  #contexts = new Map();

  /**
   * @param {AppManifest} app
   * @param {import('./tokenizer.js').Tokenizer} tokenizer
   * @param {import('./open-networks.js').Open} open
   */
  constructor(app, tokenizer, open) {
    this.#app = app;
    this.#tokenizer = tokenizer;
    this.#networks = new OpenNetworks(open);
  }

  /** Frees all networks. */
  async trim() {
    await this.#networks.releaseAll();
  }

  /**
   * Returns an image and its final latents, NHWC.
   *
   * @param {Request} request
   * @param {Watch} [watch]
   * @returns {Promise<Picture & { latents: Float32Array }>}
   * @throws {MsdError} 'bad-request', 'cancelled', or what opening and running networks throws
   */
  async generate(request, watch = {}) {
    const { image, steps } = request;
    checkRequest(request);
    if (image) factsFor(this.#app, image);
    const schedule = scheduleOf(this.#app, { steps, image, strength: changed(request) });
    try {
      return await this.#generate(request, schedule, watch);
    } finally {
      const passing = this.#app.files.map((file) => file.role).filter((role) => role !== UNET);
      await Promise.allSettled(passing.map((role) => this.#networks.release(role)));
    }
  }

  /**
   * @param {Request} request
   * @param {Schedule} schedule
   * @param {Watch} watch
   */
  async #generate(request, schedule, watch) {
    const guidance = guidanceOf(this.#app, request.guidance ?? this.#app.guidance.scale);
    const texts = guidance.prompts(request.prompt, request.negativePrompt ?? '');
    const contexts = await this.#encode(texts, watch);
    const start = await this.#start(request, watch);
    const latents = await this.#denoise(request, schedule, guidance, contexts, start, watch);
    return { ...(await this.#decode(VAE_DECODER, latents, watch, true)), latents };
  }

  /**
   * Returns the final latents.
   *
   * @param {Request} request
   * @param {Schedule} schedule
   * @param {import('./guidance.js').Guidance} guidance
   * @param {Float32Array[]} contexts
   * @param {Start} start
   * @param {Watch} watch
   */
  async #denoise(request, schedule, guidance, contexts, start, watch) {
    await this.#take(UNET, watch);
    const steps = schedule.steps.length;
    const told = guidance.inputs();
    let latents = start.latents(schedule, changed(request) ?? null);
    /** @type {Float32Array | null} */
    let clean = null;
    for (const [i, step] of schedule.steps.entries()) {
      checkCancelled(watch.signal);
      const begin = performance.now();
      if (i + 1 === steps) this.#networks.prefetch(VAE_DECODER, watch.signal);
      const latent = this.#input(latents, step, start);
      const rows = contexts.map((context) => ({ latent, context }));
      const shared = { ...timestepInput(this.#app, step), ...told };
      // A preview that had no memory beside the U-Net may have freed it.
      const unet = await this.#networks.take(UNET, watch.signal);
      const outputs = await runRows(unet, this.#file(UNET), rows, shared);
      const place = `step ${i + 1} of ${steps}`;
      const output = requireFinite(guidance.combine(outputs), `The output of the U-Net in ${place}`);
      const added = step.noise === 0 ? null : noise(request.seed ?? 0, latents.length, i + 1);
      const stepped = applyStep(step, latents, output, clean, added);
      latents = requireFinite(start.keep(stepped.next, schedule, i + 1), `The latents after ${place}`);
      clean = stepped.clean;
      const seconds = (performance.now() - begin) / 1000;
      const preview = await this.#preview(request, i + 1, steps, clean, watch);
      watch.onProgress?.({ stage: 'denoising', step: i + 1, steps, seconds, preview });
    }
    return latents;
  }

  /**
   * Returns what the U-Net takes of each text; of texts that were encoded for the last image, what was kept.
   *
   * @param {string[]} texts
   * @param {Watch} watch
   */
  async #encode(texts, watch) {
    if (!texts.every((text) => this.#contexts.has(text))) {
      const encoder = await this.#take(TEXT_ENCODER, watch);
      watch.onProgress?.({ stage: 'encoding' });
      this.#contexts = await this.#contextsOf([...new Set(texts)], encoder);
      await this.#networks.release(TEXT_ENCODER);
    }
    return texts.map((text) => /** @type {Float32Array} */ (this.#contexts.get(text)));
  }

  /**
   * @param {string[]} texts
   * @param {Network} encoder
   */
  async #contextsOf(texts, encoder) {
    const count = this.#app.prompt_chunks;
    const chunks = texts.flatMap((text) => this.#tokenizer.encode(text, count).map((tokens) => ({ tokens })));
    const rows = await runRows(encoder, this.#file(TEXT_ENCODER), chunks);
    const contexts = texts.map((_, i) => joined(rows.slice(i * count, (i + 1) * count)));
    for (const context of contexts) requireFinite(context, 'The output of the text encoder');
    return new Map(texts.map((text, i) => [text, contexts[i]]));
  }

  /**
   * @param {Request} request
   * @param {Watch} watch
   */
  async #start(request, watch) {
    const { image, seed = 0 } = request;
    const initialNoise = noise(seed, this.#app.latent.reduce((product, n) => product * n, 1));
    if (!image) return startFrom(this.#app, null, seed, initialNoise, neverEncode);
    const { encoder: role } = factsFor(this.#app, image);
    const encoder = await this.#take(role, watch);
    watch.onProgress?.({ stage: 'encoding' });
    const initial = { ...image, strength: changed(request) ?? 1 };
    const start = await startFrom(this.#app, initial, seed, initialNoise, async (pixels) => {
      const [latents] = await runRows(encoder, this.#file(role), [{ image: pixels }]);
      return requireFinite(latents, 'The output of the image encoder');
    });
    await this.#networks.release(role);
    return start;
  }

  /**
   * Returns the U-Net's input: scaled latents, and for each cell what an inpainting model takes beside them.
   *
   * @param {Float32Array} latents
   * @param {Step} step
   * @param {Start} start
   */
  #input(latents, step, start) {
    const scale = Math.fround(step.scale);
    const scaled = latents.map((each) => scale * each);
    return start.input(scaled, latents.length / this.#app.latent[this.#app.latent.length - 1]);
  }

  /**
   * @param {Request} request
   * @param {number} done
   * @param {number} steps
   * @param {Float32Array | null} clean
   * @param {Watch} watch
   */
  async #preview(request, done, steps, clean, watch) {
    const [role, every] = [this.#app.preview, request.previewEvery ?? 0];
    if (!role || !clean || every === 0 || done % every !== 0 || done === steps) return undefined;
    return this.#decode(role, clean, { signal: watch.signal }, false);
  }

  /**
   * @param {string} role
   * @param {Float32Array} latent
   * @param {Watch} watch
   * @param {boolean} last
   * @returns {Promise<Picture>}
   */
  async #decode(role, latent, watch, last) {
    const decoder = await this.#take(role, watch);
    if (last) watch.onProgress?.({ stage: 'decoding' });
    const [image] = await runRows(decoder, this.#file(role), [{ latent }]);
    const rgba = pixels(requireFinite(image, 'The image of the decoder'));
    return { rgba, width: this.#app.width, height: this.#app.height };
  }

  /**
   * @param {string} role
   * @param {Watch} watch
   */
  async #take(role, watch) {
    checkCancelled(watch.signal);
    watch.onProgress?.({ stage: 'loading', network: role });
    return this.#networks.take(role, watch.signal);
  }

  /** @param {string} role */
  #file(role) {
    return /** @type {ModelFile} */ (this.#app.files.find((file) => file.role === role));
  }
}

/**
 * Returns how much of the initial image changes; undefined without one.
 *
 * @param {Request} request
 */
export function changed({ image, strength }) {
  return image && (strength ?? strengthOf(image));
}

/** @returns {Promise<Float32Array>} */
async function neverEncode() {
  throw new MsdError('failed', 'There is no image to encode.');
}
