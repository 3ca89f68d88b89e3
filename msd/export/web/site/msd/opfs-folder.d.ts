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
export class OpfsFolder implements Folder {
    /**
     * @param {string} name
     * @returns {Promise<OpfsFolder>}
     */
    static open(name: string): Promise<OpfsFolder>;
    /** @param {FileSystemDirectoryHandle} folder */
    constructor(folder: FileSystemDirectoryHandle);
    /** @returns {Promise<import('./storage.js').Sizes>} */
    sizes(): Promise<import("./storage.js").Sizes>;
    /**
     * @param {string} name
     * @returns {Promise<ArrayBuffer | undefined>}
     */
    read(name: string): Promise<ArrayBuffer | undefined>;
    /**
     * @param {string} name
     * @returns {Promise<OpfsPart>}
     */
    openPart(name: string): Promise<OpfsPart>;
    /** @param {string} name */
    delete(name: string): Promise<void>;
    #private;
}
export type Folder = import("./storage.js").Folder;
export type Part = import("./storage.js").Part;
/**
 * The file that a worker alone may write, synchronously.
 */
export type SyncAccessHandle = {
    write: (bytes: BufferSource, options: {
        at: number;
    }) => number;
    read: (bytes: BufferSource, options: {
        at: number;
    }) => number;
    truncate: (size: number) => void;
    getSize: () => number;
    flush: () => void;
    close: () => void;
};
export type OpfsFile = FileSystemFileHandle & {
    createSyncAccessHandle(): Promise<SyncAccessHandle>;
    move(folder: FileSystemDirectoryHandle, name: string): Promise<void>;
};
/** @implements {Part} */
declare class OpfsPart implements Part {
    /**
     * @param {FileSystemDirectoryHandle} folder
     * @param {string} name
     * @param {SyncAccessHandle} access
     * @param {string | undefined} tag
     */
    constructor(folder: FileSystemDirectoryHandle, name: string, access: SyncAccessHandle, tag: string | undefined);
    size: number;
    tag: string | undefined;
    /** @param {Uint8Array<ArrayBuffer>} bytes */
    append(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
    /** @param {string} [tag] */
    restart(tag?: string): Promise<void>;
    /** @returns {Promise<ArrayBuffer>} */
    read(): Promise<ArrayBuffer>;
    finish(): Promise<void>;
    close(): Promise<void>;
    #private;
}
export {};
