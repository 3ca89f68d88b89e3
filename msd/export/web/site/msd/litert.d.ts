/**
 * Opens a network on LiteRT.js's GPU accelerator, and nowhere else: what the GPU does not take whole is
 * refused. A network whose shaders WebGPU refuses in float16 is compiled again in float32: some of LiteRT.js
 * 2.5.3 lack `enable f16`.
 *
 * @param {{ module: string, wasm: string }} place where LiteRT.js is, from `baseUrl`
 * @param {string | URL} baseUrl
 * @param {() => Promise<Uint8Array>} readModel returns the .tflite file
 * @param {{ role: string, operations: number }} network
 * @returns {Promise<Network>}
 * @throws {MsdError} no-webgpu, out-of-memory, device-lost, failed
 */
export function openLiteRt(place: {
    module: string;
    wasm: string;
}, baseUrl: string | URL, readModel: () => Promise<Uint8Array>, network: {
    role: string;
    operations: number;
}): Promise<Network>;
/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 */
export type LiteRtTensor = {
    data(): Promise<Float32Array | Int32Array>;
    copyTo(where: string): Promise<LiteRtTensor>;
    delete(): void;
};
/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 */
export type LiteRtPort = {
    name: string;
    shape: Int32Array;
    dtype: string;
};
/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 */
export type LiteRtModel = {
    run(inputs: Record<string, LiteRtTensor>): Promise<Record<string, LiteRtTensor>>;
    getInputDetails(): readonly LiteRtPort[];
    isFullyAccelerated: boolean;
    options: {
        accelerator: string;
    };
    delete(): void;
};
/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 */
export type LiteRt = {
    loadLiteRt(wasm: string): Promise<unknown>;
    unloadLiteRt(): void;
    getWebGpuDevice(): GPUDevice;
    loadAndCompile(model: Uint8Array, options: object): Promise<LiteRtModel>;
    Tensor: new (values: Float32Array | Int32Array, shape: Int32Array) => LiteRtTensor;
};
/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 */
export type Network = import("./network.js").Network;
/**
 * The part of LiteRT.js that is used, which is not typed: it is loaded from beside the page.
 */
export type Tensors = import("./network.js").Tensors;
