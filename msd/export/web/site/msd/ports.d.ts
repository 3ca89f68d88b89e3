/** @typedef {import('./program-description.js').Port} Port */
/** @typedef {import('./network.js').Tensors} Tensors */
/**
 * @param {Port} port
 * @returns {number} its elements
 */
export function sizeOf(port: Port): number;
/**
 * Compares inputs with the ports that take them.
 *
 * @param {Record<string, Port>} ports
 * @param {Tensors} inputs
 * @throws {MsdError} bad-request
 */
export function checkInputs(ports: Record<string, Port>, inputs: Tensors): void;
/**
 * @param {Port} port
 * @param {Float32Array | Int32Array} values
 * @returns {Uint8Array<ArrayBuffer>} the bytes that the GPU reads: whole words
 */
export function encode(port: Port, values: Float32Array | Int32Array): Uint8Array<ArrayBuffer>;
/**
 * @param {Port} port
 * @param {ArrayBuffer} bytes that the GPU wrote; copied
 * @returns {Float32Array | Int32Array}
 */
export function decode(port: Port, bytes: ArrayBuffer): Float32Array | Int32Array;
export type Port = import("./program-description.js").Port;
export type Tensors = import("./network.js").Tensors;
