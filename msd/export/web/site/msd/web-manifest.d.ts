/**
 * Returns the manifest that the text of web-manifest.json is.
 *
 * Throws 'bad-manifest' for a text that is no JSON, of another format, names a file outside the page, or
 * lacks what its runtime needs.
 *
 * @param {string} json
 * @returns {WebManifest}
 */
export function parseWebManifest(json: string): WebManifest;
export type Precision = "fp16" | "fp32";
/**
 * A file that the page keeps; `file` is its path from the manifest's folder, with slashes.
 */
export type WebFile = {
    file: string;
    bytes: number;
    /**
     * 64 hex digits, lower case
     */
    sha256: string;
};
/**
 * A network compiled for one kind of GPU: its program, JSON, and the shards of its weights.
 *
 * `limits` are the least values of WebGPU's limits, by WebGPU's names, where they exceed the standard's
 * defaults; `memory` are the bytes of all its buffers on the GPU.
 */
export type WebProgram = {
    program: WebFile;
    shards: WebFile[];
    limits: Record<string, number>;
    memory: number;
};
/**
 * The outputs of LiteRT on the CPU by name, float32 in little-endian order, for inputs made from `seed`:
 * floats are normal noise from the stream of the input's number, token ids count up from 0, again and again,
 * to `tokens`.
 */
export type ExpectedOutputs = {
    seed: number;
    tokens: number;
    outputs: Record<string, WebFile>;
};
/**
 * A network by its role in sd-manifest.json, and the operations of its .tflite file; `programs` for the
 * runtime 'msd', `model`, the .tflite file in shards, for 'litert'.
 */
export type WebNetwork = {
    role: string;
    operations: number;
    /**
     * by kind: 'fp16', 'fp32', 'fp16-discrete', 'fp32-discrete'
     */
    programs: Record<string, WebProgram>;
    model: WebFile[];
    expected?: ExpectedOutputs | null | undefined;
};
/**
 * LiteRT.js beside the page: its version, the path of its module, and that of its folder of WebAssembly.
 */
export type LiteRtJs = {
    version: string;
    module: string;
    wasm: string;
};
/**
 * The content of web-manifest.json (msd/export/web/manifest.py): what the page fetches before it generates.
 *
 * `model` identifies the bundle, as in sd-manifest.json; `app` is that file, `vocabulary` and `merges` the
 * tokenizer's.
 */
export type WebManifest = {
    format: number;
    runtime: "msd" | "litert";
    model: string;
    app: WebFile;
    vocabulary: WebFile;
    merges: WebFile;
    networks: WebNetwork[];
    litert?: LiteRtJs | null | undefined;
};
