import { MsdError } from './errors.js';

/**
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./network.js').Network} Network
 * @typedef {Float32Array | Int32Array} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 */

/**
 * Returns the network's outputs by name for each of `rows`, in as few runs as possible.
 *
 * Each row has the inputs of one image, as NHWC; `shared` inputs are the same for all.
 *
 * @param {Network} network
 * @param {ModelFile} file
 * @param {Tensors[]} rows
 * @param {Record<string, Float32Array>} [shared]
 * @returns {Promise<Record<string, Float32Array>[]>}
 * @throws {MsdError} 'bad-manifest' where names or sizes do not fit the file
 */
export async function runRows(network, file, rows, shared = {}) {
  requireNames(file, [...Object.keys(rows[0]), ...Object.keys(shared)]);
  const batch = batchOf(file, rows[0]);
  const common = mapValues(shared, (value, name) => repeated(value, file, name));
  /** @type {Record<string, Float32Array>[]} */
  const outputs = [];
  for (let start = 0; start < rows.length; start += batch) {
    const chunk = rows.slice(start, start + batch);
    const filled = Array.from({ length: batch }, (_, i) => chunk[Math.min(i, chunk.length - 1)]);
    const stacked = mapValues(rows[0], (_, name) => joined(filled.map((row) => row[name])));
    const found = floatOutputs(await network.run({ ...stacked, ...common }), file);
    chunk.forEach((_, i) => outputs.push(mapValues(found, (output) => rowOf(output, i, batch))));
  }
  return outputs;
}

/**
 * Returns arrays of one type, one after the other.
 *
 * @template {Tensor} T
 * @param {T[]} parts
 * @returns {T}
 */
export function joined(parts) {
  if (parts.length === 1) return parts[0];
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const Kind = parts[0] instanceof Int32Array ? Int32Array : Float32Array;
  const whole = /** @type {T} */ (new Kind(length));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * @param {ModelFile} file
 * @param {string[]} names
 */
function requireNames(file, names) {
  const known = file.inputs.map((port) => port.name).sort();
  if (names.sort().join() === known.join()) return;
  const sentence = `${file.name} should take ${names.join(', ')}, not ${known.join(', ')}.`;
  throw new MsdError('bad-manifest', sentence);
}

/**
 * Returns how many rows one run takes, on which all inputs must agree.
 *
 * @param {ModelFile} file
 * @param {Tensors} row
 */
function batchOf(file, row) {
  const batches = Object.entries(row).map(([name, value]) => sizeOf(file, name) / value.length);
  const [batch] = batches;
  if (Number.isInteger(batch) && batches.every((each) => each === batch)) return batch;
  const names = Object.keys(row).join(', ');
  throw new MsdError('bad-manifest', `Rows of ${names} do not fit the inputs of ${file.name}.`);
}

/**
 * @param {Float32Array} value
 * @param {ModelFile} file
 * @param {string} name
 */
function repeated(value, file, name) {
  const size = sizeOf(file, name);
  const count = value.length;
  if (size % count === 0) return Float32Array.from({ length: size }, (_, i) => value[i % count]);
  const sentence = `${file.name} takes ${size} numbers as ${name}, not rows of ${count}.`;
  throw new MsdError('bad-manifest', sentence);
}

/**
 * @param {ModelFile} file
 * @param {string} name
 */
function sizeOf(file, name) {
  const port = file.inputs.find((each) => each.name === name);
  return port ? port.shape.reduce((product, n) => product * n, 1) : NaN;
}

/**
 * @param {Float32Array} output
 * @param {number} row
 * @param {number} batch
 */
function rowOf(output, row, batch) {
  const size = output.length / batch;
  return output.slice(row * size, (row + 1) * size);
}

/**
 * @param {Tensors} outputs
 * @param {ModelFile} file
 * @returns {Record<string, Float32Array>}
 */
function floatOutputs(outputs, file) {
  const found = file.outputs.map(({ name }) => {
    const output = outputs[name];
    if (output instanceof Float32Array) return [name, output];
    throw new MsdError('bad-manifest', `${file.name} does not give ${name} as its manifest says.`);
  });
  return Object.fromEntries(found);
}

/**
 * @template T, U
 * @param {Record<string, T>} record
 * @param {(value: T, name: string) => U} map
 * @returns {Record<string, U>}
 */
function mapValues(record, map) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value, name)]));
}
