/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 */
/**
 * Returns what a model is called, makes and takes: `steps` that it offers, the default first, and how it
 * begins from an image, with the strengths of each number of steps, or null.
 *
 * @param {AppManifest} app
 */
export function factsOf(app: AppManifest): {
    name: string;
    licence: string | null | undefined;
    width: number;
    height: number;
    steps: number[];
    scheduler: string;
    guidance: number;
    mode: import("./manifest.js").GuidanceMode;
    preview: boolean;
    image: {
        inpaints: boolean;
        strengths: Record<string, number[]>;
    } | null | undefined;
};
/**
 * Returns the files that generating needs, with programs of a kind (Gpu.kind).
 *
 * @param {WebManifest} web
 * @param {string} kind
 */
export function filesOf(web: WebManifest, kind: string): import("./web-manifest.js").WebFile[];
/**
 * Returns the bytes of files, of each content once.
 *
 * @param {WebFile[]} files
 */
export function bytesOf(files: WebFile[]): number;
/**
 * Returns the bytes on the GPU while the U-Net and the largest other network are open; 0 where that is
 * unknown.
 *
 * @param {WebManifest} web
 * @param {string} kind of programs
 */
export function peakOf(web: WebManifest, kind: string): number;
export type AppManifest = import("./manifest.js").AppManifest;
export type WebFile = import("./manifest.js").WebFile;
export type WebManifest = import("./manifest.js").WebManifest;
export type WebNetwork = import("./manifest.js").WebNetwork;
