/**
 * @typedef {object} Settings what made a picture; an image that it began from is not kept
 * @property {string} prompt
 * @property {string} negativePrompt
 * @property {string} seed
 * @property {string} steps
 * @property {string} guidance
 *
 * @typedef {object} Kept
 * @property {number} [id] given when it is kept
 * @property {number} created milliseconds since 1970
 * @property {number} seconds that it took
 * @property {number} width
 * @property {number} height
 * @property {Settings} settings
 * @property {Blob} png
 * @property {Blob} thumbnail
 */

const [DATABASE, STORE, VERSION] = ['msd-pictures', 'pictures', 1];

/** The pictures that this browser keeps, in IndexedDB. */
export class History {
  /** @type {Promise<IDBDatabase> | null} */
  #database = null;

  /**
   * Returns all pictures, the newest first.
   *
   * @returns {Promise<Kept[]>}
   */
  async all() {
    const found = await this.#do('readonly', (store) => store.getAll());
    return found.reverse();
  }

  /**
   * Keeps a picture and returns its id; throws DOMException where there is no room.
   *
   * @param {Kept} picture
   * @returns {Promise<number>}
   */
  add(picture) {
    return this.#do('readwrite', (store) => store.add(picture));
  }

  /** @param {number} id */
  remove(id) {
    return this.#do('readwrite', (store) => store.delete(id));
  }

  /** Deletes all pictures. */
  clear() {
    return this.#do('readwrite', (store) => store.clear());
  }

  /**
   * @param {IDBTransactionMode} mode
   * @param {(store: IDBObjectStore) => IDBRequest} action
   * @returns {Promise<any>}
   */
  async #do(mode, action) {
    this.#database ??= opened();
    const transaction = (await this.#database).transaction(STORE, mode);
    const request = action(transaction.objectStore(STORE));
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  }
}

/** @returns {Promise<IDBDatabase>} */
function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, VERSION);
    request.onupgradeneeded = () =>
      request.result.createObjectStore(STORE, { keyPath: 'id', autoIncrement: true });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
