const PIECE = 4 * 2 ** 20;

/** @typedef {import('./storage.js').Folder} Folder */
/** @typedef {import('./storage.js').Part} Part */

/**
 * A cache as a folder. A cache cannot append, so a file is pieces, whose addresses are NAME/piece/START/BYTES;
 * NAME/whole says that there are all, NAME/tag is the part's tag.
 *
 * @implements {Folder}
 */
export class CacheFolder {
  #cache;
  #base;

  /**
   * @param {Cache} cache
   * @param {string} base
   */
  constructor(cache, base) {
    this.#cache = cache;
    this.#base = base;
  }

  /**
   * @param {string} name
   * @returns {Promise<CacheFolder>}
   */
  static async open(name) {
    const base = new URL(`/${encodeURIComponent(name)}/`, location.origin).href;
    return new CacheFolder(await caches.open(name), base);
  }

  /** @returns {Promise<import('./storage.js').Sizes>} */
  async sizes() {
    const whole = new Map();
    const parts = new Map();
    const keys = await this.#keys();
    const complete = new Set(keys.filter(([, kind]) => kind === 'whole').map(([name]) => name));
    for (const [name, , , bytes] of keys) {
      const sizes = complete.has(name) ? whole : parts;
      sizes.set(name, (sizes.get(name) ?? 0) + Number(bytes ?? 0));
    }
    return { whole, parts };
  }

  /**
   * @param {string} name
   * @returns {Promise<ArrayBuffer | undefined>}
   */
  async read(name) {
    const isWhole = await this.#cache.match(this.#address([name, 'whole']));
    return isWhole && (await this.openPart(name)).read();
  }

  /**
   * @param {string} name
   * @returns {Promise<CachePart>}
   */
  async openPart(name) {
    const keys = (await this.#keysOf(name)).filter(([, kind]) => kind === 'piece');
    const pieces = keys.map(([, , start, bytes]) => ({ start: Number(start), bytes: Number(bytes) }));
    const tag = await (await this.#cache.match(this.#address([name, 'tag'])))?.text();
    return new CachePart(this.#cache, this.#address([name, '']), pieces, tag);
  }

  /** @param {string} name */
  async delete(name) {
    await this.#cache.delete(this.#address([name, 'whole']));
    for (const key of await this.#keysOf(name)) await this.#cache.delete(this.#address(key));
  }

  async #keys() {
    const requests = await this.#cache.keys();
    return requests.map(({ url }) => url.slice(this.#base.length).split('/'));
  }

  /** @param {string} name */
  async #keysOf(name) {
    return (await this.#keys()).filter(([first]) => first === name);
  }

  /** @param {string[]} key */
  #address(key) {
    return this.#base + key.join('/');
  }
}

/** @implements {Part} */
class CachePart {
  #cache;
  #base;
  #pieces;
  /** @type {Uint8Array<ArrayBuffer>[]} */
  #waiting = [];
  #written;

  /**
   * @param {Cache} cache
   * @param {string} base
   * @param {{ start: number, bytes: number }[]} pieces
   * @param {string | undefined} tag
   */
  constructor(cache, base, pieces, tag) {
    this.#cache = cache;
    this.#base = base;
    this.#pieces = pieces.sort((one, other) => one.start - other.start);
    this.#written = pieces.reduce((sum, piece) => sum + piece.bytes, 0);
    this.size = this.#written;
    this.tag = tag;
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes */
  async append(bytes) {
    this.#waiting.push(bytes);
    this.size += bytes.length;
    if (this.size - this.#written >= PIECE) await this.close();
  }

  /** @param {string} [tag] */
  async restart(tag) {
    await this.#deletePieces();
    this.tag = tag;
    if (tag === undefined) await this.#cache.delete(`${this.#base}tag`);
    else await this.#cache.put(`${this.#base}tag`, new Response(tag));
  }

  /** @returns {Promise<ArrayBuffer>} */
  async read() {
    await this.close();
    const found = await Promise.all(this.#pieces.map((piece) => this.#cache.match(this.#address(piece))));
    const blobs = await Promise.all(found.map((response) => response?.blob() ?? new Blob()));
    return new Blob(blobs).arrayBuffer();
  }

  async finish() {
    await this.close();
    await this.#cache.put(`${this.#base}whole`, new Response());
    await this.#cache.delete(`${this.#base}tag`);
  }

  /** Writes what waits. */
  async close() {
    const piece = { start: this.#written, bytes: this.size - this.#written };
    if (piece.bytes === 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    this.size = this.#written;
    await this.#cache.put(this.#address(piece), new Response(new Blob(waiting)));
    this.#pieces.push(piece);
    this.#written += piece.bytes;
    this.size = this.#written;
  }

  async #deletePieces() {
    for (const piece of this.#pieces) await this.#cache.delete(this.#address(piece));
    this.#pieces = [];
    this.#waiting = [];
    this.#written = 0;
    this.size = 0;
  }

  /** @param {{ start: number, bytes: number }} piece */
  #address({ start, bytes }) {
    return `${this.#base}piece/${start}/${bytes}`;
  }
}
