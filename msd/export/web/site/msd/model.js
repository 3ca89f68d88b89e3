import { MsdError, checkCancelled } from './errors.js';
import { findGpu, openDevice } from './gpu.js';
import { guidanceOf } from './guidance.js';
import { openLiteRt } from './litert.js';
import { parseAppManifest, parseWebManifest } from './manifest.js';
import { Pipeline, UNET, strengthOf } from './pipeline.js';
import { encodePng } from './png.js';
import { openProgram } from './program.js';
import { openStore } from './store.js';
import { Tokenizer } from './tokenizer.js';
import { expectedFiles, judgeNetworks } from './verdict.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./pipeline.js').Request} Request
 * @typedef {import('./pipeline.js').Watch} Watch
 * @typedef {import('./pipeline.js').Picture} Picture
 * @typedef {{ signal?: AbortSignal, onProgress?: (progress: { stage: 'fetching', bytes: number, total: number }) => void }}
 *   FetchWatch
 */

/**
 * Returns the model in a folder on a web server that `msd export-web` wrote, to be used in a worker.
 *
 * `precision` asks for another arithmetic than the GPU's best. Nothing large is fetched yet.
 *
 * @param {string | URL} url the folder, with a slash at the end
 * @param {{ precision?: 'fp16' | 'fp32' }} [options]
 * @returns {Promise<Model>}
 * @throws {MsdError} 'offline' or 'bad-manifest'
 */
export async function openModel(url, options = {}) {
  const base = new URL(url, globalThis.location?.href);
  const web = parseWebManifest(await fetchText(new URL('web-manifest.json', base)));
  const app = parseAppManifest(await fetchText(new URL(web.app.file, base)));
  if (app.model !== web.model) throw new MsdError('bad-manifest', 'The two manifests are of different models.');
  const gpu = await findGpu(web);
  const precision = options.precision ?? gpu.precision;
  return new Model(base, web, app, { ...gpu, precision }, await openStore(encodeURIComponent(base.pathname)));
}

/** A model that generates images on this device's GPU. */
export class Model {
  #base;
  #web;
  #app;
  #gpu;
  #store;
  /** @type {Promise<GPUDevice> | null} */
  #device = null;
  /** @type {Pipeline | null} */
  #pipeline = null;

  /**
   * @param {URL} base
   * @param {WebManifest} web
   * @param {AppManifest} app
   * @param {import('./gpu.js').Gpu} gpu
   * @param {import('./store.js').Store} store
   */
  constructor(base, web, app, gpu, store) {
    this.#base = base;
    this.#web = web;
    this.#app = app;
    this.#gpu = gpu;
    this.#store = store;
  }

  /** What the model is and takes, what this device lacks for it, and how many bytes are to be fetched. */
  async inspect() {
    const files = this.#files();
    return {
      model: factsOf(this.#app),
      bytes: { total: bytesOf(files), there: await this.#store.arrived(files) },
      memory: peakOf(this.#web, this.#gpu.precision),
      gpu: { name: this.#gpu.name, precision: this.#gpu.precision, problems: this.#gpu.problems },
      space: await this.#store.space(),
    };
  }

  /**
   * Fetches what is missing, and keeps it.
   *
   * @param {FetchWatch} [watch]
   * @throws {MsdError} 'offline', 'storage-full', 'damaged' or 'cancelled'
   */
  async fetch(watch = {}) {
    await this.#store.prune([...this.#files(), ...expectedFiles(this.#web)]);
    await this.#fetch(this.#files(), watch);
  }

  /**
   * Returns an image. Fetches what is missing first.
   *
   * @param {Request & Watch} request
   * @throws {MsdError}
   */
  async generate(request) {
    const watch = { signal: request.signal, onProgress: request.onProgress };
    await this.fetch(/** @type {FetchWatch} */ (watch));
    try {
      const pipeline = (this.#pipeline ??= await this.#open());
      const picture = await pipeline.generate(request, watch);
      const metadata = this.#metadata(request);
      return { ...picture, metadata, png: () => encodePng(picture.rgba, picture.width, picture.height, metadata) };
    } catch (problem) {
      if (!isCancelled(problem)) await this.close();
      throw problem;
    }
  }

  /**
   * Runs each network on this device's GPU, and returns what came of it: docs/web.md describes the JSON.
   *
   * @param {{ repeats?: number } & Watch & FetchWatch} [watch]
   */
  async verdict(watch = {}) {
    await this.#fetch([...this.#files(), ...expectedFiles(this.#web)], watch);
    await this.#pipeline?.trim();
    const open = (/** @type {string} */ role) => this.#openNetwork(role, watch.signal);
    const read = (/** @type {WebFile} */ file) => this.#store.read(file);
    return judgeNetworks({ web: this.#web, app: this.#app, gpu: this.#gpu, open, read, ...watch });
  }

  /** Returns the bytes that models take on this device, and those that are free. */
  async space() {
    return this.#store.space();
  }

  /** Frees the GPU, and deletes what was fetched. */
  async remove() {
    await this.close();
    await this.#store.remove();
  }

  /** Frees the GPU; the next image opens it again. */
  async close() {
    const [pipeline, device] = [this.#pipeline, this.#device];
    this.#pipeline = this.#device = null;
    await pipeline?.trim().catch(() => {});
    (await device?.catch(() => null))?.destroy();
  }

  async #open() {
    const [tokens, merges] = await Promise.all([this.#text(this.#web.vocabulary), this.#text(this.#web.merges)]);
    const tokenizer = new Tokenizer(tokens, merges, this.#app.tokenizer);
    return new Pipeline(this.#app, tokenizer, (role, signal) => this.#openNetwork(role, signal));
  }

  /**
   * @param {string} role
   * @param {AbortSignal} [signal]
   */
  async #openNetwork(role, signal) {
    const network = this.#web.networks.find((each) => each.role === role);
    if (!network) throw new MsdError('bad-manifest', `The page has no files of ${role}.`);
    if (this.#web.runtime === 'msd') return this.#openProgram(network, signal);
    const facts = /** @type {import('./manifest.js').LiteRtJs} */ (this.#web.litert);
    return openLiteRt(facts, this.#base, () => this.#wholeModel(network), network);
  }

  /**
   * @param {WebNetwork} network
   * @param {AbortSignal} [signal]
   */
  async #openProgram(network, signal) {
    const { program, shards } = network.programs[this.#gpu.precision];
    const description = JSON.parse(new TextDecoder().decode(await this.#store.read(program)));
    const device = await (this.#device ??= openDevice(this.#gpu));
    checkCancelled(signal);
    return openProgram(device, description, (index) => this.#store.read(shards[index]), signal);
  }

  /** @param {WebNetwork} network */
  async #wholeModel(network) {
    const whole = new Uint8Array(bytesOf(network.model));
    let at = 0;
    for (const shard of network.model) {
      whole.set(new Uint8Array(await this.#store.read(shard)), at);
      at += shard.bytes;
    }
    return whole;
  }

  /** @param {WebFile} file */
  async #text(file) {
    return new TextDecoder().decode(await this.#store.read(file));
  }

  /**
   * @param {WebFile[]} files
   * @param {FetchWatch} watch
   */
  async #fetch(files, watch) {
    const onProgress = (/** @type {number} */ bytes, /** @type {number} */ total) =>
      watch.onProgress?.({ stage: 'fetching', bytes, total });
    await this.#store.fetch(files, this.#base, { signal: watch.signal, onProgress });
  }

  /** Returns the files that generating needs on this GPU. */
  #files() {
    const { vocabulary, merges, networks } = this.#web;
    return [vocabulary, merges, ...networks.flatMap((network) => filesOf(network, this.#gpu.precision))];
  }

  /**
   * Returns what `msd generate` writes into a PNG.
   *
   * @param {Request} request
   * @returns {Record<string, string>}
   */
  #metadata(request) {
    const app = this.#app;
    const scale = request.guidance ?? app.guidance.scale;
    const image = request.image ? { image: 'an image', strength: float(strengthOf(request)) } : {};
    return {
      prompt: request.prompt,
      negative_prompt: request.negativePrompt ?? '',
      seed: String(request.seed ?? 0),
      steps: String(request.steps ?? app.schedules[0].count),
      guidance: float(scale),
      prompt_syntax: 'plain',
      ...image,
      guidance_mode: guidanceOf(app, scale).mode,
      scheduler: `${app.scheduler}, ${app.prediction}`,
      model: app.model,
      backend: `${this.#web.runtime} in a browser, ${this.#gpu.precision}`,
      software: `msd ${app.versions.msd}`,
    };
  }
}

/**
 * @param {WebNetwork} network
 * @param {string} precision
 */
function filesOf(network, precision) {
  const program = network.programs[precision];
  return program ? [program.program, ...program.shards] : network.model;
}

/** @param {AppManifest} app */
function factsOf(app) {
  return {
    name: app.weights.name,
    licence: app.weights.licence,
    width: app.width,
    height: app.height,
    steps: app.schedules.map((schedule) => schedule.count),
    scheduler: app.scheduler,
    guidance: app.guidance.scale,
    mode: guidanceOf(app, app.guidance.scale).mode,
    preview: app.preview !== null,
    image: app.image && { inpaints: app.image.inpaints, strengths: strengthsOf(app.image) },
  };
}

/**
 * Returns the strengths that each number of steps allows.
 *
 * @param {import('./manifest.js').ImageFacts} image
 */
function strengthsOf(image) {
  /** @type {Record<string, number[]>} */
  const strengths = {};
  for (const { count, strength } of image.schedules) (strengths[count] ??= []).push(strength);
  return strengths;
}

/**
 * Returns the bytes on the GPU while the U-Net and the largest other network are open; 0 where that is unknown.
 *
 * @param {WebManifest} web
 * @param {string} precision
 */
function peakOf(web, precision) {
  const memory = (/** @type {WebNetwork} */ network) => network.programs[precision]?.memory ?? 0;
  const others = web.networks.filter((network) => network.role !== UNET).map(memory);
  return Math.max(0, ...web.networks.filter((network) => network.role === UNET).map(memory)) + Math.max(0, ...others);
}

/** @param {WebFile[]} files */
function bytesOf(files) {
  const bytes = new Map(files.map((file) => [file.sha256, file.bytes]));
  return [...bytes.values()].reduce((sum, each) => sum + each, 0);
}

/** @param {number} value */
function float(value) {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** @param {unknown} problem */
function isCancelled(problem) {
  return problem instanceof MsdError && ['cancelled', 'bad-request'].includes(problem.code);
}

/** @param {URL} url */
async function fetchText(url) {
  let response;
  try {
    response = await fetch(url, { cache: 'no-cache' });
  } catch (problem) {
    throw new MsdError('offline', `${url.pathname} cannot be fetched; is there a connection?`, problem);
  }
  if (response.ok) return response.text();
  throw new MsdError('offline', `The server answers ${response.status} for ${url.pathname}.`);
}
