/**
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').Port} Port
 * @typedef {Float32Array | Int32Array} Values
 * @typedef {{ run(inputs: Record<string, Values>): Promise<Record<string, Values>> }} Runs
 */
/**
 * Returns a network's first output for each row of inputs, float32; rows run in batches of what the file
 * takes.
 *
 * An input in `shared` is the same for all rows, and is repeated as often as it fits. The last batch is
 * filled with its last row. Throws 'bad-manifest' for inputs that do not fit the file's.
 *
 * @param {Runs} network
 * @param {ModelFile} file
 * @param {Record<string, Values>[]} rows
 * @param {Record<string, Float32Array>} [shared]
 * @returns {Promise<Float32Array[]>}
 */
export function runRows(network: Runs, file: ModelFile, rows: Record<string, Values>[], shared?: Record<string, Float32Array>): Promise<Float32Array[]>;
/**
 * Returns float32 arrays one after the other.
 *
 * @param {Float32Array[]} parts
 * @returns {Float32Array}
 */
export function joined(parts: Float32Array[]): Float32Array;
export type ModelFile = import("./manifest.js").ModelFile;
export type Port = import("./manifest.js").Port;
export type Values = Float32Array | Int32Array;
export type Runs = {
    run(inputs: Record<string, Values>): Promise<Record<string, Values>>;
};
