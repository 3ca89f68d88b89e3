import { damaged } from './shape.js';

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
export async function runRows(network, file, rows, shared = {}) {
  const batch = batchOf(file, rows[0]);
  const common = mapped(shared, (value, name) => repeated(file, name, value));
  const outputs = /** @type {Float32Array[]} */ ([]);
  for (let first = 0; first < rows.length; first += batch) {
    const filled = Array.from({ length: batch }, (_, i) => rows[Math.min(first + i, rows.length - 1)]);
    const made = await network.run({ ...stacked(filled), ...common });
    const output = /** @type {Float32Array} */ (made[file.outputs[0].name]);
    const count = Math.min(batch, rows.length - first);
    outputs.push(...Array.from({ length: count }, (_, i) => part(output, i, batch)));
  }
  return outputs;
}

/**
 * Returns float32 arrays one after the other.
 *
 * @param {Float32Array[]} parts
 * @returns {Float32Array}
 */
export function joined(parts) {
  return parts.length === 1 ? parts[0] : /** @type {Float32Array} */ (concatenated(parts));
}

/**
 * Returns how many rows one run takes, on which all inputs must agree.
 *
 * @param {ModelFile} file
 * @param {Record<string, Values>} row
 */
function batchOf(file, row) {
  const batches = Object.entries(row).map(([name, value]) => times(file, name, value));
  if (new Set(batches).size === 1) return batches[0];
  throw damaged(`the inputs of ${file.name} have unlike batches: ${batches.join(', ')}`);
}

/**
 * Returns how often a value fits an input.
 *
 * @param {ModelFile} file
 * @param {string} name
 * @param {Values} value
 */
function times(file, name, value) {
  const port = file.inputs.find((one) => one.name === name);
  if (!port) throw damaged(`${name} is no input of ${file.name}`);
  const size = port.shape.reduce((a, b) => a * b, 1);
  if (size % value.length === 0) return size / value.length;
  throw damaged(`${file.name} takes ${size} numbers as ${name}, which rows of ${value.length} do not fit`);
}

/** @param {Record<string, Values>[]} rows */
function stacked(rows) {
  return mapped(rows[0], (_, name) => concatenated(rows.map((row) => row[name])));
}

/**
 * Returns a copy of one of `count` equal parts.
 *
 * @param {Float32Array} values
 * @param {number} index
 * @param {number} count
 */
function part(values, index, count) {
  const size = values.length / count;
  return values.slice(index * size, (index + 1) * size);
}

/**
 * @template T
 * @param {Record<string, T>} values
 * @param {(value: T, name: string) => Values} make
 */
function mapped(values, make) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, make(value, name)]));
}

/**
 * @param {ModelFile} file
 * @param {string} name
 * @param {Float32Array} value
 */
function repeated(file, name, value) {
  return concatenated(Array.from({ length: times(file, name, value) }, () => value));
}

/**
 * @param {Values[]} parts
 * @returns {Values}
 */
function concatenated(parts) {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const whole = parts[0] instanceof Int32Array ? new Int32Array(size) : new Float32Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
