import { MsdError } from './errors.js';
import { fromHalf, toHalf } from './half.js';

/** @typedef {import('./program-description.js').Port} Port */
/** @typedef {import('./network.js').Tensors} Tensors */

/**
 * @param {Port} port
 * @returns {number} its elements
 */
export function sizeOf(port) {
  return port.shape.reduce((product, n) => product * n, 1);
}

/**
 * Compares inputs with the ports that take them.
 *
 * @param {Record<string, Port>} ports
 * @param {Tensors} inputs
 * @throws {MsdError} bad-request
 */
export function checkInputs(ports, inputs) {
  const [wanted, given] = [ports, inputs].map((names) => Object.keys(names).sort().join(', '));
  if (wanted !== given) throw new MsdError('bad-request', `The network takes ${wanted}, not ${given}.`);
  for (const [name, port] of Object.entries(ports)) {
    const kind = isFloat(port) ? Float32Array : Int32Array;
    const values = inputs[name];
    if (!(values instanceof kind) || values.length !== sizeOf(port)) {
      const wish = `${sizeOf(port)} numbers as ${kind.name}`;
      const found = `${values?.length} as ${values?.constructor.name}`;
      throw new MsdError('bad-request', `The network takes ${wish} for ${name}, not ${found}.`);
    }
  }
}

/**
 * @param {Port} port
 * @param {Float32Array | Int32Array} values
 * @returns {Uint8Array<ArrayBuffer>} the bytes that the GPU reads: whole words
 */
export function encode(port, values) {
  const elements = port.element === 'f16' ? toHalf(/** @type {Float32Array} */ (values)) : values;
  const bytes = new Uint8Array(Math.ceil(elements.byteLength / 4) * 4);
  bytes.set(new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength));
  return bytes;
}

/**
 * @param {Port} port
 * @param {ArrayBuffer} bytes that the GPU wrote; copied
 * @returns {Float32Array | Int32Array}
 */
export function decode(port, bytes) {
  const size = sizeOf(port);
  if (port.element === 'f16') return fromHalf(new Uint16Array(bytes, 0, size));
  return isFloat(port) ? new Float32Array(bytes, 0, size).slice() : new Int32Array(bytes, 0, size).slice();
}

/** @param {Port} port */
function isFloat(port) {
  return port.element === 'f32' || port.element === 'f16';
}
