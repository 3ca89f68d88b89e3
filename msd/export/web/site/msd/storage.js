import { CacheFolder } from './cache-folder.js';
import { MsdError } from './errors.js';
import { OpfsFolder } from './opfs-folder.js';

/**
 * Files of this browser by name. Each is whole, or a part that lacks its end.
 *
 * @typedef {object} Folder
 * @property {() => Promise<Sizes>} sizes
 * @property {(name: string) => Promise<ArrayBuffer | undefined>} read  a whole file, if it is there
 * @property {(name: string) => Promise<Part>} openPart  for one user at a time; creates an empty one
 * @property {(name: string) => Promise<void>} delete  deletes a file, whole and part, if it is there
 */

/**
 * The bytes of each file by name.
 *
 * @typedef {{ whole: Map<string, number>, parts: Map<string, number> }} Sizes
 */

/**
 * What has arrived of a file. Writing throws a QuotaExceededError where the storage is full.
 *
 * @typedef {object} Part
 * @property {number} size  in bytes
 * @property {string | undefined} tag  what the server calls the version of the file that it sent
 * @property {(bytes: Uint8Array<ArrayBuffer>) => Promise<void>} append
 * @property {(tag?: string) => Promise<void>} restart  throws away what has arrived
 * @property {() => Promise<ArrayBuffer>} read
 * @property {() => Promise<void>} finish  makes it a whole file
 * @property {() => Promise<void>} close  lets others open it
 */

/**
 * Returns a folder of the origin private file system in a dedicated worker, and a cache elsewhere.
 *
 * @param {string} name
 * @returns {Promise<Folder>}
 * @throws {MsdError} 'failed' where the browser has no storage for this page
 */
export async function openFolder(name) {
  const files = globalThis.FileSystemFileHandle?.prototype;
  try {
    if (files && 'createSyncAccessHandle' in files) return await OpfsFolder.open(name);
  } catch {
    // Private windows of some browsers refuse the file system and have caches.
  }
  try {
    return await CacheFolder.open(name);
  } catch (problem) {
    const way = 'use a window that is not private, over HTTPS or on localhost';
    throw new MsdError('failed', `This browser keeps no files for this page; ${way}.`, problem);
  }
}
