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
export function openStore(name: string, patience?: Partial<Patience>): Promise<Store>;
/** Files by their SHA-256: one that several models or precisions need is kept once. */
export class Store {
    /**
     * @param {string} lock
     * @param {import('./storage.js').Folder} folder
     * @param {Patience} patience
     */
    constructor(lock: string, folder: import("./storage.js").Folder, patience: Patience);
    /**
     * Returns those of the files that are not there, or not wholly.
     *
     * @param {readonly WebFile[]} files
     * @returns {Promise<WebFile[]>}
     */
    missing(files: readonly WebFile[]): Promise<WebFile[]>;
    /**
     * Returns how many bytes of the files are there, those of unfinished files included.
     *
     * @param {readonly WebFile[]} files
     * @returns {Promise<number>}
     */
    arrived(files: readonly WebFile[]): Promise<number>;
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
    fetch(files: readonly WebFile[], baseUrl: string | URL, { signal, onProgress }?: {
        signal?: AbortSignal;
        onProgress?: (bytes: number, total: number) => void;
    }): Promise<void>;
    /**
     * Returns the bytes of a file, whose SHA-256 was checked now.
     *
     * @param {WebFile} file
     * @returns {Promise<ArrayBuffer>}
     * @throws {MsdError} 'damaged' if it is not there, or is damaged and therefore was deleted
     */
    read(file: WebFile): Promise<ArrayBuffer>;
    /**
     * Returns how many bytes this store takes, and how many more the browser grants where it says.
     *
     * @returns {Promise<{ used: number, available: number | undefined }>}
     */
    space(): Promise<{
        used: number;
        available: number | undefined;
    }>;
    /**
     * Deletes all that is none of these files, unless files are being fetched.
     *
     * @param {readonly WebFile[]} files
     */
    prune(files: readonly WebFile[]): Promise<void>;
    /**
     * Deletes everything.
     *
     * @throws {MsdError} 'failed' while files are being fetched
     */
    remove(): Promise<void>;
    #private;
}
export type WebFile = import("./manifest.js").WebFile;
export type Patience = import("./fetch-file.js").Patience;
