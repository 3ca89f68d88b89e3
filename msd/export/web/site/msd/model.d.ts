/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./web-manifest.js').Precision} Precision
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./progress.js').Watch} Watch
 * @typedef {Omit<import('./pipeline.js').Request, 'image'> & Files} Wishes
 * @typedef {{ image?: Blob, mask?: Blob | Uint8Array }} Files
 */
/**
 * Returns the model in a folder on a web server that `msd export-web` wrote, to be used in a worker.
 *
 * `precision` asks for another arithmetic than the GPU's best. Nothing large is fetched yet.
 *
 * @param {string | URL} url the folder, with a slash at the end
 * @param {{ precision?: Precision }} [options]
 * @returns {Promise<Model>}
 * @throws {MsdError} 'offline' or 'bad-manifest'
 */
export function openModel(url: string | URL, options?: {
    precision?: Precision;
}): Promise<Model>;
/** A model that generates images on this device's GPU. */
export class Model {
    /**
     * @param {URL} base
     * @param {WebManifest} web
     * @param {AppManifest} app
     * @param {import('./gpu.js').Gpu} gpu
     * @param {import('./store.js').Store} store
     */
    constructor(base: URL, web: WebManifest, app: AppManifest, gpu: import("./gpu.js").Gpu, store: import("./store.js").Store);
    /** What the model is and takes, what this device lacks for it, and how many bytes are to be fetched. */
    inspect(): Promise<{
        model: {
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
        runtime: "msd" | "litert";
        bytes: {
            total: number;
            there: number;
        };
        memory: number;
        gpu: {
            name: string;
            precision: "fp16" | "fp32";
            problems: string[];
        };
        space: {
            used: number;
            available: number | undefined;
        };
    }>;
    /**
     * Fetches what is missing, and keeps it.
     *
     * @param {Watch} [watch]
     * @throws {MsdError} 'offline', 'storage-full', 'damaged' or 'cancelled'
     */
    fetch(watch?: Watch): Promise<void>;
    /**
     * Returns an image. Fetches what is missing first.
     *
     * `image` is an image file to begin with, fitted to the model's size; `mask` says what of it is repainted:
     * another file of its size, by its brightness, or a number for each pixel of the result, 1 to repaint and 0
     * to keep.
     *
     * @param {Wishes & Watch} request
     * @throws {MsdError}
     */
    generate(request: Wishes & Watch): Promise<{
        metadata: Record<string, string>;
        png: () => Promise<Blob>;
        rgba: Uint8ClampedArray<ArrayBuffer>;
        width: number;
        height: number;
        latents: Float32Array;
    }>;
    /**
     * Runs each network on this device's GPU, and returns what came of it: its JSON Schema is
     * docs/web-verdict.schema.json.
     *
     * @param {{ repeats?: number } & Watch} [watch]
     */
    verdict(watch?: {
        repeats?: number;
    } & Watch): Promise<{
        format: number;
        runtime: "msd" | "litert";
        api: string;
        model: string;
        precision: "fp16" | "fp32";
        adapter: string;
        features: string[];
        limits: Record<string, number>;
        browser: string;
        cores: number;
        versions: Record<string, string>;
        networks: import("./verdict.js").NetworkVerdict[];
    }>;
    /** Returns the bytes that models take on this device, and those that are free. */
    space(): Promise<{
        used: number;
        available: number | undefined;
    }>;
    /** Frees the GPU, and deletes what was fetched. */
    remove(): Promise<void>;
    /** Frees the GPU; the next image opens it again. */
    close(): Promise<void>;
    #private;
}
export type AppManifest = import("./manifest.js").AppManifest;
export type Precision = import("./web-manifest.js").Precision;
export type WebManifest = import("./manifest.js").WebManifest;
export type WebNetwork = import("./manifest.js").WebNetwork;
export type WebFile = import("./manifest.js").WebFile;
export type Watch = import("./progress.js").Watch;
export type Wishes = Omit<import("./pipeline.js").Request, "image"> & Files;
export type Files = {
    image?: Blob;
    mask?: Blob | Uint8Array;
};
