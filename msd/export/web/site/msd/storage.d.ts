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
export function openFolder(name: string): Promise<Folder>;
/**
 * Files of this browser by name. Each is whole, or a part that lacks its end.
 */
export type Folder = {
    sizes: () => Promise<Sizes>;
    /**
     * a whole file, if it is there
     */
    read: (name: string) => Promise<ArrayBuffer | undefined>;
    /**
     * for one user at a time; creates an empty one
     */
    openPart: (name: string) => Promise<Part>;
    /**
     * deletes a file, whole and part, if it is there
     */
    delete: (name: string) => Promise<void>;
};
/**
 * The bytes of each file by name.
 */
export type Sizes = {
    whole: Map<string, number>;
    parts: Map<string, number>;
};
/**
 * What has arrived of a file. Writing throws a QuotaExceededError where the storage is full.
 */
export type Part = {
    /**
     * in bytes
     */
    size: number;
    /**
     * what the server calls the version of the file that it sent
     */
    tag: string | undefined;
    append: (bytes: Uint8Array<ArrayBuffer>) => Promise<void>;
    /**
     * throws away what has arrived
     */
    restart: (tag?: string) => Promise<void>;
    read: () => Promise<ArrayBuffer>;
    /**
     * makes it a whole file
     */
    finish: () => Promise<void>;
    /**
     * lets others open it
     */
    close: () => Promise<void>;
};
