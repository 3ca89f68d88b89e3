/** @typedef {import('./storage.js').Folder} Folder */
/** @typedef {import('./storage.js').Part} Part */
/**
 * A cache as a folder. A cache cannot append, so a file is pieces, whose addresses are NAME/piece/START/BYTES;
 * NAME/whole says that there are all, NAME/tag is the part's tag.
 *
 * @implements {Folder}
 */
export class CacheFolder implements Folder {
    /**
     * @param {string} name
     * @returns {Promise<CacheFolder>}
     */
    static open(name: string): Promise<CacheFolder>;
    /**
     * @param {Cache} cache
     * @param {string} base
     */
    constructor(cache: Cache, base: string);
    /** @returns {Promise<import('./storage.js').Sizes>} */
    sizes(): Promise<import("./storage.js").Sizes>;
    /**
     * @param {string} name
     * @returns {Promise<ArrayBuffer | undefined>}
     */
    read(name: string): Promise<ArrayBuffer | undefined>;
    /**
     * @param {string} name
     * @returns {Promise<CachePart>}
     */
    openPart(name: string): Promise<CachePart>;
    /** @param {string} name */
    delete(name: string): Promise<void>;
    #private;
}
export type Folder = import("./storage.js").Folder;
export type Part = import("./storage.js").Part;
/** @implements {Part} */
declare class CachePart implements Part {
    /**
     * @param {Cache} cache
     * @param {string} base
     * @param {{ start: number, bytes: number }[]} pieces
     * @param {string | undefined} tag
     */
    constructor(cache: Cache, base: string, pieces: {
        start: number;
        bytes: number;
    }[], tag: string | undefined);
    size: number;
    tag: string | undefined;
    /** @param {Uint8Array<ArrayBuffer>} bytes */
    append(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
    /** @param {string} [tag] */
    restart(tag?: string): Promise<void>;
    /** @returns {Promise<ArrayBuffer>} */
    read(): Promise<ArrayBuffer>;
    finish(): Promise<void>;
    /** Writes what waits. */
    close(): Promise<void>;
    #private;
}
export {};
