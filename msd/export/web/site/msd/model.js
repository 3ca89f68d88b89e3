import { requireOnePicture, steeringBy } from './control.js';
import { MsdError, checkCancelled } from './errors.js';
import { bytesOf, factsOf, filesOf, networkFiles, peakOf, rolesOf } from './facts.js';
import { findGpu, openDevice, shortfalls } from './gpu.js';
import { initialImage } from './initial-image.js';
import { parseAppManifest, parseWebManifest } from './manifest.js';
import { metadataOf } from './metadata.js';
import { readPhoto } from './photo.js';
import { Pipeline } from './pipeline.js';
import { encodePng } from './png.js';
import { openProgram } from './program.js';
import { openStore } from './store.js';
import { Tokenizer } from './tokenizer.js';
import { expectedFiles, judgeNetworks } from './verdict.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./web-manifest.js').Precision} Precision
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./progress.js').Watch} Watch
 * @typedef {{ bytes: { total: number, there: number }, whole: boolean, problems: string[] }} Optional
 * @typedef {import('./control.js').Control} Control
 * @typedef {{ pixels?: Float32Array, image?: Blob, fromPhoto?: boolean }} Shown
 * @typedef {Omit<Control, 'pixels'> & Shown} Steering
 * @typedef {Omit<import('./request.js').Request, 'image' | 'controls'> & Files} Wishes
 * @typedef {{ image?: Blob, mask?: Blob | Uint8Array, controls?: Steering[] }} Files
 */

/**
 * Returns the model in a folder on a web server that `msd export-web` wrote, to be used in a worker.
 *
 * `precision` asks for another arithmetic than the GPU's best. Nothing large is fetched yet.
 *
 * @param {string | URL} url the folder, with a slash at the end
 * @param {{ precision?: Precision }} [options]
 * @returns {Promise<Model>}
 * @throws {MsdError} 'offline' or 'bad-manifest'
 */
export async function openModel(url, options = {}) {
  const base = new URL(url, globalThis.location?.href);
  const web = parseWebManifest(await fetchText(new URL('web-manifest.json', base)));
  const app = parseAppManifest(await fetchText(new URL(web.app.file, base)));
  if (app.model !== web.model) {
    throw new MsdError('bad-manifest', 'The two manifests are of different models.');
  }
  const gpu = await findGpu(web, options.precision);
  return new Model(base, web, app, gpu, await openStore(encodeURIComponent(base.pathname)));
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

  /**
   * What the model is and takes, what this device lacks for it, and how many bytes are to be fetched, for
   * each of the `optional` networks too.
   */
  async inspect() {
    const files = this.#files();
    return {
      model: factsOf(this.#app, this.#web),
      runtime: this.#web.runtime,
      bytes: { total: bytesOf(files), there: await this.#store.arrived(files) },
      optional: await this.#optional(),
      memory: peakOf(this.#app, this.#web, this.#gpu.kind),
      gpu: { name: this.#gpu.name, precision: this.#gpu.precision, problems: this.#gpu.problems },
      space: await this.#store.space(),
    };
  }

  /**
   * Fetches what is missing, and keeps it: with `upscale` and `controls` of a request also the networks that
   * only these need.
   *
   * @param {Watch & Pick<Wishes, 'upscale' | 'controls'>} [request]
   * @throws {MsdError} 'offline', 'storage-full', 'damaged' or 'cancelled'
   */
  async fetch(request = {}) {
    await this.#store.prune([...this.#files({ has: () => true }), ...expectedFiles(this.#web)]);
    await this.#fetch(this.#files(rolesOf(this.#app, request)), request);
  }

  /**
   * Returns an image. Fetches what is missing first.
   *
   * `image` is an image file to begin with, fitted to the model's size; `mask` says what of it is repainted:
   * another file of its size, by its brightness, or a number for each pixel of the result, 1 to repaint and 0
   * to keep. A control may have an `image` file instead of `pixels`; with `fromPhoto` its
   * edges steer, those of either.
   *
   * @param {Wishes & Watch} request
   * @throws {MsdError}
   */
  async generate(request) {
    const watch = { signal: request.signal, onProgress: request.onProgress };
    await this.fetch({ ...watch, upscale: request.upscale, controls: request.controls });
    try {
      const pipeline = (this.#pipeline ??= await this.#open());
      const controls = await Promise.all((request.controls ?? []).map((control) => this.#control(control)));
      const whole = { ...request, image: await this.#initial(request), controls };
      const picture = await pipeline.generate(whole, watch);
      const backend = `${this.#web.runtime} in a browser, ${this.#gpu.precision}`;
      const metadata = metadataOf(this.#app, whole, backend, pipeline.remarks(whole));
      const { rgba, width, height } = picture;
      return { ...picture, metadata, png: () => encodePng(rgba, width, height, metadata) };
    } catch (problem) {
      if (!isCancelled(problem)) await this.close();
      throw problem;
    }
  }

  /**
   * Runs each network on this device's GPU, of the optional ones those that are there, and returns what came
   * of it: its JSON Schema is docs/web-verdict.schema.json.
   *
   * @param {{ repeats?: number } & Watch} [watch]
   */
  async verdict(watch = {}) {
    const optional = await this.#optional();
    const there = new Set(Object.keys(optional).filter((role) => optional[role].whole));
    const networks = this.#web.networks.filter(({ role }) => !optional[role] || there.has(role));
    const web = { ...this.#web, networks };
    await this.#fetch([...this.#files(there), ...expectedFiles(web)], watch);
    await this.#pipeline?.trim();
    const open = (/** @type {string} */ role) => this.#openNetwork(role, watch.signal);
    const read = (/** @type {WebFile} */ file) => this.#store.read(file);
    return judgeNetworks({ web, app: this.#app, gpu: this.#gpu, open, read, ...watch });
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

  /**
   * @param {Wishes} wishes
   * @returns {Promise<import('./initial-image.js').InitialImage | undefined>}
   */
  async #initial({ image, mask }) {
    if (!image) {
      if (!mask) return undefined;
      throw new MsdError('bad-request', 'the mask says what to repaint of an image; give the image too');
    }
    const file = mask instanceof Blob ? await readPhoto(mask, 'the mask') : null;
    const initial = initialImage(await readPhoto(image), this.#app.height, this.#app.width, { mask: file });
    return mask instanceof Uint8Array ? { ...initial, mask: Float32Array.from(mask) } : initial;
  }

  /**
   * @param {Steering} control
   * @returns {Promise<Control>}
   */
  async #control({ image, pixels = new Float32Array(), ...rest }) {
    if (!image) return steeringBy({ ...rest, pixels }, this.#app);
    requireOnePicture(rest.name, pixels);
    const fitted = initialImage(await readPhoto(image), this.#app.height, this.#app.width);
    return steeringBy({ description: fitted.description, ...rest, pixels: fitted.pixels }, this.#app);
  }

  /**
   * Returns of each optional network how many bytes are to be fetched, whether they are there, and what this
   * GPU lacks for it.
   */
  async #optional() {
    const { kind, limits } = this.#gpu;
    const networks = this.#web.networks.filter(({ optional }) => optional);
    const told = networks.map(async (network) => {
      const files = networkFiles(network, kind);
      const bytes = { total: bytesOf(files), there: await this.#store.arrived(files) };
      const problems = shortfalls(limits, network.programs[kind]?.limits ?? {});
      return [network.role, { bytes, whole: (await this.#store.missing(files)).length === 0, problems }];
    });
    return /** @type {Record<string, Optional>} */ (Object.fromEntries(await Promise.all(told)));
  }

  async #open() {
    const { vocabulary, merges: pairs } = this.#web;
    const [tokens, merges] = await Promise.all([this.#text(vocabulary), this.#text(pairs)]);
    const entries = Object.entries(this.#app.tokenizers);
    const tokenizers = entries.map(([name, facts]) => [name, new Tokenizer(tokens, merges, facts)]);
    const open = (/** @type {string} */ role, /** @type {AbortSignal | undefined} */ signal) =>
      this.#openNetwork(role, signal);
    return new Pipeline(this.#app, Object.fromEntries(tokenizers), open);
  }

  /**
   * @param {string} role
   * @param {AbortSignal} [signal]
   */
  async #openNetwork(role, signal) {
    const network = this.#web.networks.find((each) => each.role === role);
    if (!network) throw new MsdError('bad-manifest', `The page has no files of ${role}.`);
    if (this.#web.runtime === 'msd') return this.#openProgram(network, signal);
    const { openLiteRt } = await import('./litert.js');
    const facts = /** @type {import('./manifest.js').LiteRtJs} */ (this.#web.litert);
    return openLiteRt(facts, this.#base, () => this.#wholeModel(network), network);
  }

  /**
   * Opens a network's program; where the browser refuses matrix units, which are an experiment, the one
   * without.
   *
   * @param {WebNetwork} network
   * @param {AbortSignal} [signal]
   */
  async #openProgram(network, signal) {
    const { kind, fallback } = this.#gpu;
    try {
      return await this.#openKind(kind, network, signal);
    } catch (problem) {
      if (kind === fallback || !(problem instanceof MsdError && problem.code === 'failed')) throw problem;
      this.#gpu = { ...this.#gpu, kind: fallback };
      await this.#store.fetch(await this.#filesInsteadOf(kind), this.#base, { signal });
      return this.#openKind(fallback, network, signal);
    }
  }

  /**
   * Returns the files for this GPU of those networks whose files of another kind are there.
   *
   * @param {string} kind
   */
  async #filesInsteadOf(kind) {
    const { networks } = this.#web;
    const missing = await Promise.all(networks.map((each) => this.#store.missing(networkFiles(each, kind))));
    const there = networks.filter((_, i) => missing[i].length === 0);
    return there.flatMap((each) => networkFiles(each, this.#gpu.kind));
  }

  /**
   * @param {string} kind
   * @param {WebNetwork} network
   * @param {AbortSignal} [signal]
   */
  async #openKind(kind, network, signal) {
    const compiled = network.programs[kind];
    if (!compiled) throw new MsdError('bad-manifest', `The page has no ${kind} program of ${network.role}.`);
    const { program, shards } = compiled;
    const description = JSON.parse(new TextDecoder().decode(await this.#store.read(program)));
    const device = await this.#opened();
    checkCancelled(signal);
    // The store has compared what it reads with the same hashes.
    const verified = shards.every(({ sha256 }, i) => description.shards?.[i]?.sha256 === sha256);
    const read = (/** @type {number} */ index) => this.#store.read(shards[index]);
    return openProgram(device, description, read, signal, verified);
  }

  /** Returns the device, which is opened once; one that could not be opened is tried again. */
  #opened() {
    const device = (this.#device ??= openDevice(this.#gpu));
    device.catch(() => {
      if (this.#device === device) this.#device = null;
    });
    return device;
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
   * @param {Watch} watch
   */
  async #fetch(files, watch) {
    const onProgress = (/** @type {number} */ bytes, /** @type {number} */ total) =>
      watch.onProgress?.({ stage: 'fetching', bytes, total });
    await this.#store.fetch(files, this.#base, { signal: watch.signal, onProgress });
  }

  /**
   * Returns the files that generating needs on this GPU, with optional networks of some roles.
   *
   * @param {{ has: (role: string) => boolean }} [roles]
   */
  #files(roles) {
    return filesOf(this.#web, this.#gpu.kind, roles);
  }
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
