const BUSY_TRIES = 40;
const BUSY_PAUSE = 50;
const PART = '.part';
const TAG = '.tag';

/** @typedef {import('./storage.js').Folder} Folder */
/** @typedef {import('./storage.js').Part} Part */

/**
 * The file that a worker alone may write, synchronously.
 *
 * @typedef {object} SyncAccessHandle
 * @property {(bytes: BufferSource, options: { at: number }) => number} write
 * @property {(bytes: BufferSource, options: { at: number }) => number} read
 * @property {(size: number) => void} truncate
 * @property {() => number} getSize
 * @property {() => void} flush
 * @property {() => void} close
 */

/**
 * @typedef {FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncAccessHandle>,
 *   move(folder: FileSystemDirectoryHandle, name: string): Promise<void> }} OpfsFile
 */

/**
 * A folder of the origin private file system, for dedicated workers; a part is NAME.part, its tag NAME.tag.
 *
 * @implements {Folder}
 */
export class OpfsFolder {
  /** @type {FileSystemDirectoryHandle} */
  #folder;

  /** @param {FileSystemDirectoryHandle} folder */
  constructor(folder) {
    this.#folder = folder;
  }

  /**
   * @param {string} name
   * @returns {Promise<OpfsFolder>}
   */
  static async open(name) {
    const root = await navigator.storage.getDirectory();
    return new OpfsFolder(await root.getDirectoryHandle(name, { create: true }));
  }

  /** @returns {Promise<import('./storage.js').Sizes>} */
  async sizes() {
    const whole = new Map();
    const parts = new Map();
    for await (const [name, handle] of this.#folder.entries()) {
      if (name.endsWith(TAG)) continue;
      const bytes = await sizeOf(/** @type {FileSystemFileHandle} */ (handle));
      if (name.endsWith(PART)) parts.set(name.slice(0, -PART.length), bytes);
      else whole.set(name, bytes);
    }
    return { whole, parts };
  }

  /**
   * @param {string} name
   * @returns {Promise<ArrayBuffer | undefined>}
   */
  async read(name) {
    return orNothing(async () => {
      const handle = await this.#folder.getFileHandle(name);
      return (await handle.getFile()).arrayBuffer();
    });
  }

  /**
   * @param {string} name
   * @returns {Promise<OpfsPart>}
   */
  async openPart(name) {
    const handle = await this.#folder.getFileHandle(name + PART, { create: true });
    const tag = await this.read(name + TAG);
    const access = await opened(/** @type {OpfsFile} */ (handle));
    return new OpfsPart(this.#folder, name, access, tag && new TextDecoder().decode(tag));
  }

  /** @param {string} name */
  async delete(name) {
    for (const each of [name, name + PART, name + TAG]) {
      await orNothing(() => this.#folder.removeEntry(each));
    }
  }
}

/** @implements {Part} */
class OpfsPart {
  #folder;
  #name;
  #access;

  /**
   * @param {FileSystemDirectoryHandle} folder
   * @param {string} name
   * @param {SyncAccessHandle} access
   * @param {string | undefined} tag
   */
  constructor(folder, name, access, tag) {
    this.#folder = folder;
    this.#name = name;
    this.#access = access;
    this.size = access.getSize();
    this.tag = tag;
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes */
  async append(bytes) {
    writeAll(this.#access, bytes, this.size);
    this.size += bytes.length;
  }

  /** @param {string} [tag] */
  async restart(tag) {
    this.#access.truncate(0);
    this.size = 0;
    this.tag = tag;
    if (tag === undefined) return orNothing(() => this.#folder.removeEntry(this.#name + TAG));
    const handle = await this.#folder.getFileHandle(this.#name + TAG, { create: true });
    const access = await opened(/** @type {OpfsFile} */ (handle));
    try {
      access.truncate(0);
      writeAll(access, new TextEncoder().encode(tag), 0);
    } finally {
      access.close();
    }
  }

  /** @returns {Promise<ArrayBuffer>} */
  async read() {
    const bytes = new Uint8Array(this.size);
    for (let done = 0; done < bytes.length;) {
      const count = this.#access.read(bytes.subarray(done), { at: done });
      if (count === 0) break;
      done += count;
    }
    return bytes.buffer;
  }

  async finish() {
    this.#access.flush();
    this.#access.close();
    const handle = await this.#folder.getFileHandle(this.#name + PART);
    // Safari's move takes the folder, too.
    await /** @type {OpfsFile} */ (handle).move(this.#folder, this.#name);
    await orNothing(() => this.#folder.removeEntry(this.#name + TAG));
  }

  async close() {
    this.#access.close();
  }
}

/**
 * Returns the size of a file in bytes; 0 for one that has just been deleted or renamed.
 *
 * @param {FileSystemFileHandle} handle
 */
async function sizeOf(handle) {
  return (await orNothing(async () => (await handle.getFile()).size)) ?? 0;
}

/**
 * Opens a file, for which a worker that has just been ended may still hold the lock.
 *
 * @param {OpfsFile} handle
 * @returns {Promise<SyncAccessHandle>}
 */
async function opened(handle) {
  for (let left = BUSY_TRIES; ; left--) {
    try {
      return await handle.createSyncAccessHandle();
    } catch (problem) {
      if (nameOf(problem) !== 'NoModificationAllowedError' || left === 0) throw problem;
    }
    await new Promise((resolve) => setTimeout(resolve, BUSY_PAUSE));
  }
}

/**
 * @param {SyncAccessHandle} access
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} at
 */
function writeAll(access, bytes, at) {
  if (access.write(bytes, { at }) === bytes.length) return;
  // A disk that is full takes fewer bytes and says nothing.
  access.truncate(at);
  throw new DOMException('the disk is full', 'QuotaExceededError');
}

/**
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T | undefined>}
 */
async function orNothing(work) {
  try {
    return await work();
  } catch (problem) {
    if (nameOf(problem) === 'NotFoundError') return undefined;
    throw problem;
  }
}

/** @param {unknown} problem */
function nameOf(problem) {
  return problem instanceof DOMException ? problem.name : '';
}
