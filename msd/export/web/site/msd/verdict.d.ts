/**
 * The distance of an output from LiteRT's on the CPU; `psnr_db` is 20·log10(max |wanted| / rmse), null where it is
 * infinite or undefined.
 *
 * @typedef {{ output: string, psnr_db: number | null, max_difference: number | null, max_reference: number,
 *   finite: boolean, identical: boolean }} Distance
 */
/**
 * What a network did on this GPU. Milliseconds; `outputs` is empty where the export brought none along; `gpu_bytes` of
 * all buffers, and `dispatches`, are null where the runtime does not tell.
 *
 * @typedef {object} NetworkVerdict
 * @property {string} role
 * @property {string} sha256
 * @property {number} operations
 * @property {number} delegated
 * @property {number} partitions
 * @property {number | null} dispatches
 * @property {number | null} open_ms
 * @property {number | null} first_ms
 * @property {number[]} runs_ms
 * @property {Distance[]} outputs
 * @property {number | null} gpu_bytes
 * @property {string | null} failure
 * @property {string[]} log
 */
/**
 * @typedef {object} Subject
 * @property {WebManifest} web
 * @property {AppManifest} app
 * @property {import('./gpu.js').Gpu} gpu
 * @property {(role: string) => Promise<Network>} open
 * @property {(file: WebFile) => Promise<ArrayBuffer>} read
 * @property {number} [repeats]
 * @property {Watch['signal']} [signal]
 * @property {Watch['onProgress']} [onProgress]
 */
/**
 * Returns what each network of a model did on this GPU: one after the other, each freed before the next.
 *
 * @param {Subject} subject
 */
export function judgeNetworks(subject: Subject): Promise<{
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
    networks: NetworkVerdict[];
}>;
/** @param {WebManifest} web */
export function expectedFiles(web: WebManifest): import("./web-manifest.js").WebFile[];
/**
 * Returns the inputs that an export computed expected outputs for: each input of floats has its own stream of noise.
 *
 * @param {ModelFile} file
 * @param {{ seed: number, tokens: number }} expected
 * @returns {Tensors}
 */
export function expectedInputs(file: ModelFile, { seed, tokens }: {
    seed: number;
    tokens: number;
}): Tensors;
/**
 * Returns the distance of an output from what was expected.
 *
 * @param {string} output
 * @param {Float32Array | Int32Array | undefined} found
 * @param {Float32Array} wanted
 * @returns {Distance}
 * @throws {MsdError} 'damaged' for arrays of unlike sizes
 */
export function distance(output: string, found: Float32Array | Int32Array | undefined, wanted: Float32Array): Distance;
/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./progress.js').Watch} Watch
 * @typedef {import('./network.js').Tensors} Tensors
 */
export const FORMAT: 1;
/**
 * The distance of an output from LiteRT's on the CPU; `psnr_db` is 20·log10(max |wanted| / rmse), null where it is
 * infinite or undefined.
 */
export type Distance = {
    output: string;
    psnr_db: number | null;
    max_difference: number | null;
    max_reference: number;
    finite: boolean;
    identical: boolean;
};
/**
 * What a network did on this GPU. Milliseconds; `outputs` is empty where the export brought none along; `gpu_bytes` of
 * all buffers, and `dispatches`, are null where the runtime does not tell.
 */
export type NetworkVerdict = {
    role: string;
    sha256: string;
    operations: number;
    delegated: number;
    partitions: number;
    dispatches: number | null;
    open_ms: number | null;
    first_ms: number | null;
    runs_ms: number[];
    outputs: Distance[];
    gpu_bytes: number | null;
    failure: string | null;
    log: string[];
};
export type Subject = {
    web: WebManifest;
    app: AppManifest;
    gpu: import("./gpu.js").Gpu;
    open: (role: string) => Promise<Network>;
    read: (file: WebFile) => Promise<ArrayBuffer>;
    repeats?: number | undefined;
    signal?: Watch["signal"];
    onProgress?: Watch["onProgress"];
};
export type AppManifest = import("./manifest.js").AppManifest;
export type ModelFile = import("./manifest.js").ModelFile;
export type WebManifest = import("./manifest.js").WebManifest;
export type WebNetwork = import("./manifest.js").WebNetwork;
export type WebFile = import("./manifest.js").WebFile;
export type Network = import("./network.js").Network;
export type Watch = import("./progress.js").Watch;
export type Tensors = import("./network.js").Tensors;
