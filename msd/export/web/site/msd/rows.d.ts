/**
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./network.js').Network} Network
 * @typedef {Float32Array | Int32Array} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 */
/**
 * Returns the network's first output for each of `rows`, in as few runs as possible.
 *
 * Each row has the inputs of one image, as NHWC; `shared` inputs are the same for all.
 *
 * @param {Network} network
 * @param {ModelFile} file
 * @param {Tensors[]} rows
 * @param {Record<string, Float32Array>} [shared]
 * @returns {Promise<Float32Array[]>}
 * @throws {MsdError} 'bad-manifest' where names or sizes do not fit the file
 */
export function runRows(network: Network, file: ModelFile, rows: Tensors[], shared?: Record<string, Float32Array>): Promise<Float32Array[]>;
/**
 * Returns arrays of one type, one after the other.
 *
 * @template {Tensor} T
 * @param {T[]} parts
 * @returns {T}
 */
export function joined<T extends Tensor>(parts: T[]): T;
export type ModelFile = import("./manifest.js").ModelFile;
export type Network = import("./network.js").Network;
export type Tensor = Float32Array | Int32Array;
export type Tensors = Record<string, Tensor>;
