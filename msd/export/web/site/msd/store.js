import { Arrival, sum } from './arrival.js';
import { MsdError, checkCancelled } from './errors.js';
import { PATIENCE, fetchFile } from './fetch-file.js';
import { ifUnlocked, withLock } from './locks.js';
import { sha256 } from './sha256.js';
import { openFolder } from './storage.js';

const AT_ONCE = 2;

/** @typedef {import('./manifest.js').WebFile} WebFile */
/** @typedef {import('./fetch-file.js').Patience} Patience */

/**
 * Returns the files that this browser keeps under a name, in the origin private file system in a dedicated
 * worker and in a cache elsewhere. Pages of one origin that open the same name share them.
 *
 * @param {string} name
 * @param {Partial<Patience>} [patience]
 * @returns {Promise<Store>}
 * @throws {MsdError} 'failed' where the browser has no storage for this page
 */
export async function openStore(name, patience = {}) {
  const full = `msd-store-${name}`;
  return new Store(full, await openFolder(full), { ...PATIENCE, ...patience });
}

/** Files by their SHA-256: one that several models or precisions need is kept once. */
export class Store {
  #lock;
  #folder;
  #patience;

  /**
   * @param {string} lock
   * @param {import('./storage.js').Folder} folder
   * @param {Patience} patience
   */
  constructor(lock, folder, patience) {
    this.#lock = lock;
    this.#folder = folder;
    this.#patience = patience;
  }

  /**
   * Returns those of the files that are not there, or not wholly.
   *
   * @param {readonly WebFile[]} files
   * @returns {Promise<WebFile[]>}
   */
  async missing(files) {
    const { whole } = await this.#folder.sizes();
    return files.filter((file) => whole.get(file.sha256) !== file.bytes);
  }

  /**
   * Returns how many bytes of the files are there, those of unfinished files included.
   *
   * @param {readonly WebFile[]} files
   * @returns {Promise<number>}
   */
  async arrived(files) {
    const sizes = await this.#folder.sizes();
    return sum(distinct(files).map((file) => arrivedOf(file, sizes)));
  }

  /**
   * Fetches the files that are missing, from where an earlier call ended; `onProgress` receives the bytes
   * that are there and those of all files. What has arrived stays, whatever ends it.
   *
   * @param {readonly WebFile[]} files
   * @param {string | URL} baseUrl  the address of the folder that their paths begin in, ending in a slash
   * @param {{ signal?: AbortSignal, onProgress?: (bytes: number, total: number) => void }} [options]
   * @throws {MsdError} 'offline', 'storage-full', 'damaged' if the server has other bytes than the manifest
   *   says, 'failed' if it has no such file, 'cancelled'
   */
  async fetch(files, baseUrl, { signal, onProgress } = {}) {
    const wanted = distinct(files);
    const arrival = new Arrival(sum(wanted.map((file) => file.bytes)), onProgress);
    await withLock(this.#lock, { shared: true, signal }, async () => {
      try {
        const missing = await this.#begin(wanted, arrival);
        await this.#fetchAll(missing, baseUrl, arrival, signal);
      } catch (problem) {
        throw await explained(problem, arrival);
      } finally {
        arrival.tell();
      }
    });
  }

  /**
   * Returns the bytes of a file, whose SHA-256 was checked now.
   *
   * @param {WebFile} file
   * @returns {Promise<ArrayBuffer>}
   * @throws {MsdError} 'damaged' if it is not there, or is damaged and therefore was deleted
   */
  async read(file) {
    const bytes = await this.#folder.read(file.sha256);
    if (bytes && (await sha256(bytes)) === file.sha256) return bytes;
    if (bytes) await this.#folder.delete(file.sha256);
    const what = bytes ? 'was damaged here and has been deleted' : 'is not in this browser any more';
    throw new MsdError('damaged', `${file.file} ${what}; fetch the model again.`);
  }

  /**
   * Returns how many bytes this store takes, and how many more the browser grants where it says.
   *
   * @returns {Promise<{ used: number, available: number | undefined }>}
   */
  async space() {
    const { whole, parts } = await this.#folder.sizes();
    return { used: sum([...whole.values(), ...parts.values()]), available: await available() };
  }

  /**
   * Deletes all that is none of these files, unless files are being fetched.
   *
   * @param {readonly WebFile[]} files
   */
  async prune(files) {
    await ifUnlocked(this.#lock, () => this.#keep(files));
  }

  /**
   * Deletes everything.
   *
   * @throws {MsdError} 'failed' while files are being fetched
   */
  async remove() {
    if (await ifUnlocked(this.#lock, () => this.#keep([]))) return;
    throw new MsdError('failed', 'The model is being fetched, perhaps in another tab; end that first.');
  }

  /** @param {readonly WebFile[]} files */
  async #keep(files) {
    const kept = new Set(files.map((file) => file.sha256));
    const { whole, parts } = await this.#folder.sizes();
    const names = new Set([...whole.keys(), ...parts.keys()]);
    for (const name of names) if (!kept.has(name)) await this.#folder.delete(name);
  }

  /**
   * Tells what is there and returns the files that are not.
   *
   * @param {WebFile[]} wanted
   * @param {Arrival} arrival
   */
  async #begin(wanted, arrival) {
    const sizes = await this.#folder.sizes();
    arrival.begin(new Map(wanted.map((file) => [file.sha256, arrivedOf(file, sizes)])));
    const needed = arrival.total - arrival.bytes;
    const free = await available();
    if (free !== undefined && free < needed) throw full(needed, free);
    return wanted.filter((file) => sizes.whole.get(file.sha256) !== file.bytes);
  }

  /**
   * @param {WebFile[]} files
   * @param {string | URL} baseUrl
   * @param {Arrival} arrival
   * @param {AbortSignal | undefined} signal
   */
  async #fetchAll(files, baseUrl, arrival, signal) {
    const stop = linked(signal);
    const queue = files.values();
    /** @type {unknown[]} */
    const problems = [];
    const work = async () => {
      for (const file of queue) {
        if (stop.signal.aborted) return;
        await this.#fetchOne(file, addressOf(file, baseUrl), arrival, stop.signal).catch((problem) => {
          problems.push(problem);
          stop.abort();
        });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (problems.length > 0) throw problems[0];
    checkCancelled(signal);
  }

  /**
   * @param {WebFile} file
   * @param {string} url
   * @param {Arrival} arrival
   * @param {AbortSignal} signal
   */
  async #fetchOne(file, url, arrival, signal) {
    await withLock(`${this.#lock} ${file.sha256}`, { signal }, async () => {
      const there = (await this.#folder.sizes()).whole.get(file.sha256);
      if (there === file.bytes) return arrival.note(file.sha256, there); // another tab has fetched it
      if (there !== undefined) await this.#folder.delete(file.sha256);
      const part = await this.#folder.openPart(file.sha256);
      const onArrival = () => arrival.note(file.sha256, part.size);
      try {
        if (part.size > file.bytes) await part.restart();
        await fetchFile({ file, url, part, signal, onArrival, patience: this.#patience });
      } finally {
        await part.close();
        onArrival();
      }
    });
  }
}

/** @param {readonly WebFile[]} files */
function distinct(files) {
  /** @type {Map<string, WebFile>} */
  const found = new Map();
  for (const file of files) if (!found.has(file.sha256)) found.set(file.sha256, file);
  return [...found.values()];
}

/**
 * @param {WebFile} file
 * @param {import('./storage.js').Sizes} sizes
 */
function arrivedOf(file, { whole, parts }) {
  if (whole.get(file.sha256) === file.bytes) return file.bytes;
  return Math.min(parts.get(file.sha256) ?? 0, file.bytes);
}

/**
 * Returns a controller that aborts with a signal.
 *
 * @param {AbortSignal | undefined} signal
 */
function linked(signal) {
  const controller = new AbortController();
  signal?.addEventListener('abort', () => controller.abort(), { once: true });
  if (signal?.aborted) controller.abort();
  return controller;
}

/**
 * @param {WebFile} file
 * @param {string | URL} baseUrl
 */
function addressOf(file, baseUrl) {
  return new URL(file.file.split('/').map(encodeURIComponent).join('/'), baseUrl).href;
}

/** Returns how many bytes the browser still grants this origin; undefined where it does not say. */
async function available() {
  const { quota, usage } = await navigator.storage.estimate();
  return quota === undefined ? undefined : Math.max(0, quota - (usage ?? 0));
}

/**
 * Returns an error that also says how much is there, or how much storage is needed.
 *
 * @param {unknown} problem
 * @param {Arrival} arrival
 */
async function explained(problem, arrival) {
  const { bytes, total } = arrival;
  if (problem instanceof MsdError && problem.code === 'offline') {
    const there = `${megabytes(bytes)} of ${megabytes(total)} MB are there`;
    const sentence = `${problem.message} ${there}, and the next try goes on from there.`;
    return new MsdError('offline', sentence, problem);
  }
  const isFull = problem instanceof DOMException && problem.name === 'QuotaExceededError';
  return isFull ? full(total - bytes, await available(), problem) : problem;
}

/**
 * @param {number} needed
 * @param {number | undefined} free
 * @param {unknown} [problem]
 */
function full(needed, free, problem) {
  // Chromium's estimate is a round number, and so may be larger than what it grants.
  const isKnown = free !== undefined && free < needed;
  const grants = isKnown ? `grants ${megabytes(free)}` : 'grants no more';
  const fault = `The model needs ${megabytes(needed)} MB more and the browser ${grants}`;
  const way = 'free some space on the device and try again; what has arrived stays';
  return new MsdError('storage-full', `${fault}; ${way}.`, problem);
}

/** @param {number} bytes */
function megabytes(bytes) {
  return (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);
}
