import { controlOf, decoderOf, named, wiringOf } from './calls.js';
import { idleControls, requireControls, steeringOf } from './control.js';
import { checkCancelled } from './errors.js';
import { requireFinite, requirePicture } from './finite.js';
import { guidanceOf } from './guidance.js';
import { rowInputs, sharedInputs } from './inputs.js';
import { modelFile } from './manifest.js';
import { noise } from './noise.js';
import { OpenNetworks } from './open-networks.js';
import { paste } from './paste.js';
import { pixels } from './pixels.js';
import { requestRemarks } from './remarks.js';
import { checkRequest } from './request.js';
import { joined, runRows } from './rows.js';
import { applyStep, changed, scheduleOf, takesNoise } from './schedule.js';
import { encodedImage, factsFor, pixelsOf, startFrom } from './start.js';
import { enlarged, upscalerOf } from './upscale.js';
import { decodedLatent } from './vae-tiles.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').Step} Step
 * @typedef {import('./manifest.js').Schedule} Schedule
 * @typedef {import('./calls.js').Call} Call
 * @typedef {import('./guidance.js').Guidance} Guidance
 * @typedef {import('./start.js').Start} Start
 * @typedef {import('./start.js').Values} Values
 * @typedef {import('./tokenizer.js').Tokenizer} Tokenizer
 */

/**
 * @typedef {import('./progress.js').Picture} Picture
 * @typedef {import('./request.js').Request} Request
 * @typedef {import('./progress.js').Watch} Watch
 */

/**
 * Generates the images of one model, one at a time, as its calls say.
 *
 * The networks of prompts and images are freed when they have run, those of every step stay until `trim`, and
 * the decoder is opened during the last step and freed, as in the pipelined execution of arXiv 2307.01193,
 * section 3.3.
 */
export class Pipeline {
  #app;
  #wiring;
  #tokenizers;
  #networks;
  /** @type {Map<string, Values>} */
  #encoded = new Map();

  /**
   * @param {AppManifest} app
   * @param {Record<string, Tokenizer>} tokenizers by the names that calls have for them
   * @param {import('./open-networks.js').Open} open
   */
  constructor(app, tokenizers, open) {
    this.#app = app;
    this.#wiring = wiringOf(app);
    this.#tokenizers = tokenizers;
    this.#networks = new OpenNetworks(open);
  }

  /** Frees all networks. */
  async trim() {
    await this.#networks.releaseAll();
  }

  /**
   * Returns what is not used of a request as its writer may have meant it, sentences for people.
   *
   * @param {Request} request
   * @returns {string[]}
   * @throws {MsdError} 'bad-request' for controls in steps that the model has no schedule for
   */
  remarks(request) {
    const guidance = guidanceOf(this.#app, request.guidance);
    const tokenizer = Object.values(this.#tokenizers)[0];
    const own = requestRemarks(request, guidance, tokenizer, this.#app.prompt_chunks);
    const { controls = [] } = request;
    return controls.length ? [...own, ...idleControls(controls, this.#schedule(request).steps.length)] : own;
  }

  /** @param {Request} request */
  #schedule(request) {
    const { image, steps } = request;
    return scheduleOf(this.#app, { steps, image, strength: changed(this.#app, request) });
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
    const { image } = request;
    checkRequest(request);
    requireControls(this.#app, request);
    upscalerOf(this.#app, request);
    if (image) factsFor(this.#app, image);
    const remarks = this.remarks(request);
    if (remarks.length) watch.onProgress?.({ stage: 'remarks', remarks });
    const schedule = this.#schedule(request);
    try {
      return await this.#generate(request, schedule, watch);
    } finally {
      const stays = new Set(this.#wiring.steps.map(({ component }) => component));
      const passing = this.#app.files.map((file) => file.role).filter((role) => !stays.has(role));
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
    const prompts = await this.#encode(texts, watch);
    const ofImage = await this.#encodeImage(request, watch);
    const initialNoise = noise(request.seed ?? 0, this.#app.latent.reduce((product, n) => product * n, 1));
    const start = startFrom(this.#app, request.image ?? null, initialNoise, ofImage);
    const values = prompts.map((own) => ({ ...ofImage, ...own }));
    const latents = await this.#denoise(request, schedule, guidance, values, start, watch);
    const picture = await this.#decode(request, this.#wiring.decoder, latents, watch);
    return { ...(await this.#enlarge(request, picture, watch)), latents };
  }

  /**
   * @param {Request} request
   * @param {Picture} picture
   * @param {Watch} watch
   */
  async #enlarge(request, picture, watch) {
    const upscaler = upscalerOf(this.#app, request);
    if (!upscaler) return picture;
    await this.#networks.release(this.#wiring.decoder.component);
    return enlarged(this.#app, upscaler, await this.#take(upscaler.role, watch), picture, watch);
  }

  /**
   * Returns the final latents.
   *
   * @param {Request} request
   * @param {Schedule} schedule
   * @param {Guidance} guidance
   * @param {Values[]} values of each row
   * @param {Start} start
   * @param {Watch} watch
   */
  async #denoise(request, schedule, guidance, values, start, watch) {
    const { denoiser, decoder } = this.#wiring;
    for (const { component } of this.#steps(request)) await this.#take(component, watch);
    const steps = schedule.steps.length;
    const what = `The output of the ${this.#file(denoiser.component).title}`;
    let latents = start.latents(schedule, changed(this.#app, request) ?? null);
    /** @type {import('./schedule.js').StepMemory | null} */
    let memory = null;
    for (const [i, step] of schedule.steps.entries()) {
      checkCancelled(watch.signal);
      const begin = performance.now();
      if (i + 1 === steps) this.#networks.prefetch(decoder.component, watch.signal);
      const at = { step, index: i, total: steps };
      const outputs = await this.#predict(request, latents, at, guidance.number, values, watch);
      const place = `step ${i + 1} of ${steps}`;
      const output = requireFinite(guidance.combine(outputs), `${what} in ${place}`);
      const added = takesNoise(step) ? noise(request.seed ?? 0, latents.length, i + 1) : null;
      const stepped = applyStep(step, latents, output, memory, added);
      latents = requireFinite(start.keep(stepped.next, schedule, i + 1), `The latents after ${place}`);
      memory = stepped.memory;
      const seconds = (performance.now() - begin) / 1000;
      const preview = await this.#preview(request, i + 1, steps, memory.clean, watch);
      watch.onProgress?.({ stage: 'denoising', step: i + 1, steps, seconds, preview });
    }
    return latents;
  }

  /**
   * Returns the prediction of each row, by the calls of a step.
   *
   * @param {Request} request
   * @param {Float32Array} latent
   * @param {{ step: Step, index: number, total: number }} at
   * @param {number} guidance the number of it
   * @param {Values[]} rows
   * @param {Watch} watch
   */
  async #predict(request, latent, at, guidance, rows, watch) {
    const { denoiser } = this.#wiring;
    const { height, width } = this.#app;
    const { step } = at;
    const scale = Math.fround(step.scale);
    const numbers = { timestep: step.timestep, guidance, height, width };
    const given = {
      latent,
      scaled: latent.map((each) => scale * each),
      pixels: request.image && pixelsOf(request.image),
      numbers,
    };
    const known = [...rows];
    for (const call of this.#steps(request)) {
      const file = this.#file(call.component);
      const steering = rows.map((_, row) =>
        steeringOf(call, file, request, { ...at, row, rows: rows.length }),
      );
      const running = [...rows.keys()].filter((row) => steering[row]);
      if (!running.length) continue;
      const inputs = running.map((row) =>
        rowInputs(call, file, { ...given, ...steering[row], values: known[row] }),
      );
      // A preview that had no memory beside the networks of a step may have freed them.
      const network = await this.#networks.take(call.component, watch.signal);
      const outputs = await runRows(network, file, inputs, sharedInputs(call, file, numbers));
      running.forEach((row, i) => (known[row] = { ...known[row], ...named(call, outputs[i]) }));
    }
    const { value } = /** @type {import('./calls.js').Output} */ (
      denoiser.outputs.find(({ kind }) => kind === 'prediction')
    );
    return known.map((values) => values[value]);
  }

  /**
   * Returns the calls of every step: of ControlNets, those that steer this image.
   *
   * @param {Request} request
   */
  #steps({ controls = [] }) {
    const names = ['', ...controls.map(({ name }) => name)];
    return this.#wiring.steps.filter((call) => names.includes(controlOf(call)));
  }

  /**
   * Returns what calls compute of each text; of texts that were encoded for the last image, what was kept.
   *
   * @param {string[]} texts
   * @param {Watch} watch
   */
  async #encode(texts, watch) {
    if (!texts.every((text) => this.#encoded.has(text))) {
      this.#encoded = await this.#encodeTexts([...new Set(texts)], watch);
    }
    return texts.map((text, i) => {
      const values = /** @type {Values} */ (this.#encoded.get(text));
      return text === '' && i < texts.length - 1 ? this.#zeroed(values) : values;
    });
  }

  /**
   * Returns the values of a negative prompt that is empty.
   *
   * @param {Values} values
   */
  #zeroed(values) {
    const zeros = this.#wiring.ofPrompts
      .flatMap((call) => call.outputs)
      .filter((output) => output.zero_if_absent)
      .map(({ value }) => [value, new Float32Array(values[value].length)]);
    return /** @type {Values} */ ({ ...values, ...Object.fromEntries(zeros) });
  }

  /**
   * @param {string[]} texts
   * @param {Watch} watch
   */
  async #encodeTexts(texts, watch) {
    const { prompt_chunks: count } = this.#app;
    /** @type {Values[]} of each chunk of each text */
    let known = texts.flatMap(() => Array.from({ length: count }, () => ({})));
    const tokens = this.#tokensOf(texts);
    for (const call of this.#wiring.ofPrompts) {
      const [network, file] = [await this.#take(call.component, watch), this.#file(call.component)];
      watch.onProgress?.({ stage: 'encoding' });
      const rows = known.map((values, i) => rowInputs(call, file, { tokens: tokens[i], values }));
      const outputs = await runRows(network, file, rows);
      known = known.map((values, i) => ({ ...values, ...named(call, outputs[i]) }));
      await this.#networks.release(call.component);
    }
    return new Map(texts.map((text, i) => [text, this.#passedOn(known.slice(i * count, (i + 1) * count))]));
  }

  /**
   * Returns the tokens of each chunk of each text, by tokenizer.
   *
   * @param {string[]} texts
   */
  #tokensOf(texts) {
    const count = this.#app.prompt_chunks;
    const names = Object.keys(this.#tokenizers);
    const encoded = names.map((name) => texts.flatMap((text) => this.#tokenizers[name].encode(text, count)));
    return texts.flatMap((_, i) =>
      Array.from({ length: count }, (_, chunk) =>
        Object.fromEntries(names.map((name, n) => [name, encoded[n][i * count + chunk]])),
      ),
    );
  }

  /**
   * Returns what later calls take of a text's chunks: hidden states follow each other, a vector is that of
   * the first chunk.
   *
   * @param {Values[]} chunks
   */
  #passedOn(chunks) {
    const outputs = this.#wiring.ofPrompts.flatMap((call) =>
      call.outputs.map((output) => ({ ...output, title: this.#file(call.component).title })),
    );
    const passed = outputs.map(({ value, kind, title }) => {
      const all = chunks.map((values) => values[value]);
      return [value, requireFinite(kind === 'vector' ? all[0] : joined(all), `The output of the ${title}`)];
    });
    return /** @type {Values} */ (Object.fromEntries(passed));
  }

  /**
   * @param {Request} request
   * @param {Watch} watch
   * @returns {Promise<Values>}
   */
  async #encodeImage(request, watch) {
    const { image, seed = 0 } = request;
    if (!image) return {};
    const initial = { ...image, strength: changed(this.#app, request) };
    const values = await encodedImage(this.#app, initial, seed, async (call, inputs) => {
      const network = await this.#take(call.component, watch);
      watch.onProgress?.({ stage: 'encoding' });
      return (await runRows(network, this.#file(call.component), [inputs]))[0];
    });
    for (const { component } of this.#wiring.ofImages) await this.#networks.release(component);
    return values;
  }

  /**
   * @param {Request} request
   * @param {number} done
   * @param {number} steps
   * @param {Float32Array} clean
   * @param {Watch} watch
   */
  async #preview(request, done, steps, clean, watch) {
    const [role, every] = [this.#app.preview, request.previewEvery ?? 0];
    if (!role || every === 0 || done % every !== 0 || done === steps) return undefined;
    return this.#decode(request, decoderOf(this.#app, role), clean, { signal: watch.signal }, true);
  }

  /**
   * @param {Request} request
   * @param {Call} call
   * @param {Float32Array} latent
   * @param {Watch} watch
   * @param {boolean} [preview] which may be flat
   * @returns {Promise<Picture>}
   */
  async #decode({ image: initial, paste: pastes = true }, call, latent, watch, preview = false) {
    const [decoder, file] = [await this.#take(call.component, watch), this.#file(call.component)];
    watch.onProgress?.({ stage: 'decoding' });
    const run = async (/** @type {import('./rows.js').Tensors} */ inputs) => {
      checkCancelled(watch.signal);
      return (await runRows(decoder, file, [inputs]))[0];
    };
    const image = await decodedLatent(call, file, latent, this.#app.latent, run);
    const what = `The image of the ${file.title}`;
    const rgba = pixels(preview ? requireFinite(image, what) : requirePicture(image, this.#app, what));
    const shown = initial && pastes ? paste(rgba, initial) : rgba;
    return { rgba: shown, width: this.#app.width, height: this.#app.height };
  }

  /**
   * @param {string} role
   * @param {Watch} watch
   */
  async #take(role, watch) {
    checkCancelled(watch.signal);
    watch.onProgress?.({ stage: 'loading', network: this.#file(role).title });
    return this.#networks.take(role, watch.signal);
  }

  /** @param {string} role */
  #file(role) {
    return modelFile(this.#app, role);
  }
}
