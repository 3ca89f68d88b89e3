/**
 * A file on its way from `url` into `part`.
 *
 * @typedef {object} Way
 * @property {WebFile} file
 * @property {string} url
 * @property {Part} part
 * @property {Patience} patience
 * @property {AbortSignal | undefined} signal
 * @property {() => void} onArrival  is called after each change of the part
 */
/**
 * Fetches what a part lacks and makes it a whole file, if its SHA-256 is right; else fetches all once more.
 *
 * @param {Way} way
 * @throws {MsdError} 'offline', 'damaged' if the server has other bytes, 'failed' if it has none, 'cancelled'
 */
export function fetchFile(way: Way): Promise<void>;
/** @typedef {import('./storage.js').Part} Part */
/** @typedef {import('./manifest.js').WebFile} WebFile */
/**
 * How long to wait for a byte, and before the second try, in milliseconds; a pause is twice the one before.
 * After so many `tries` without a byte there is no other.
 *
 * @typedef {{ stall: number, pause: number, tries: number }} Patience
 */
/** @type {Patience} */
export const PATIENCE: Patience;
/**
 * A file on its way from `url` into `part`.
 */
export type Way = {
    file: WebFile;
    url: string;
    part: Part;
    patience: Patience;
    signal: AbortSignal | undefined;
    /**
     * is called after each change of the part
     */
    onArrival: () => void;
};
export type Part = import("./storage.js").Part;
export type WebFile = import("./manifest.js").WebFile;
/**
 * How long to wait for a byte, and before the second try, in milliseconds; a pause is twice the one before.
 * After so many `tries` without a byte there is no other.
 */
export type Patience = {
    stall: number;
    pause: number;
    tries: number;
};
