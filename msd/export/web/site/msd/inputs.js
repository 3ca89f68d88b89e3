import { sourcesOf } from './calls.js';
import { MsdError } from './errors.js';
import { numbersInput } from './timestep.js';

/**
 * @typedef {import('./calls.js').Call} Call
 * @typedef {import('./calls.js').Input} Input
 * @typedef {import('./calls.js').Source} Source
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').Port} Port
 * @typedef {import('./timestep.js').Numbers} Numbers
 * @typedef {Float32Array | Int32Array} Tensor
 */

/**
 * What the inputs of a call can be made of: tokens by tokenizer, the latents as they are and scaled, pixels
 * and values by name, numbers, and the pictures and scales of ControlNets by their names.
 *
 * @typedef {object} Given
 * @property {Record<string, Int32Array>} [tokens]
 * @property {Float32Array} [latent]
 * @property {Float32Array} [scaled]
 * @property {Record<string, Float32Array>} [pixels]
 * @property {Record<string, Float32Array>} [values]
 * @property {Numbers} [numbers]
 * @property {Record<string, Float32Array>} [hints]
 * @property {Record<string, Float32Array>} [scales]
 */

/**
 * Returns the inputs of a call that are the same for every row: those of numbers alone.
 *
 * @param {Call} call
 * @param {ModelFile} file
 * @param {Numbers} numbers
 * @returns {Record<string, Float32Array>}
 */
export function sharedInputs(call, file, numbers) {
  const counted = call.inputs.filter(isCounted);
  return Object.fromEntries(
    counted.map((each) => [each.name, /** @type {Float32Array} */ (inputOf(each, file, { numbers }))]),
  );
}

/**
 * Returns the other inputs of a call, for one row.
 *
 * @param {Call} call
 * @param {ModelFile} file
 * @param {Given} given
 * @returns {Record<string, Tensor>}
 */
export function rowInputs(call, file, given) {
  const others = call.inputs.filter((each) => !isCounted(each));
  return Object.fromEntries(others.map((each) => [each.name, inputOf(each, file, given)]));
}

/**
 * Whether what pixels a call takes are there.
 *
 * @param {Call} call
 * @param {Record<string, Float32Array>} pixels
 */
export function hasPixels(call, pixels) {
  return sourcesOf(call).every(({ kind, of = '' }) => kind !== 'pixels' || of in pixels);
}

/** @param {Input} input */
function isCounted({ sources }) {
  return sources.every(({ kind }) => kind === 'numbers' || kind === 'sinusoids');
}

/**
 * @param {Input} input
 * @param {ModelFile} file
 * @param {Given} given
 * @returns {Tensor}
 */
function inputOf(input, file, given) {
  const port = /** @type {Port} */ (file.inputs.find(({ name }) => name === input.name));
  if (input.summed) return summed(input.sources, port, given.values ?? {});
  const parts = input.sources.map((source) => partOf(source, port, input.sources.length, given));
  return parts.length === 1 ? parts[0] : joinedAlong(parts, port.shape, input.axis);
}

/**
 * @param {Source} source
 * @param {Port} port
 * @param {number} among how many sources share the input
 * @param {Given} given
 * @returns {Tensor}
 */
function partOf(source, port, among, given) {
  const { kind, of = '' } = source;
  const width = port.shape[port.shape.length - 1] / among;
  /** @type {Tensor | undefined} */
  const found = {
    tokens: () => given.tokens?.[of],
    latent: () => (source.scaled ? given.scaled : given.latent),
    pixels: () => given.pixels?.[of] && atCells(given.pixels[of], port.shape, given.numbers),
    // A network that predicts runs without the pictures, and steers by nothing.
    hint: () => given.hints?.[of] ?? zeros(port),
    scales: () => given.scales?.[of] ?? zeros(port),
    value: () => given.values?.[of],
    numbers: () => given.numbers && numbersInput(source, width, given.numbers),
    sinusoids: () => given.numbers && numbersInput(source, width, given.numbers),
  }[kind]();
  if (found) return found;
  throw new MsdError('bad-manifest', `${port.name} takes ${kind} ${of}, which is not there.`);
}

/**
 * Returns the sum of those values that have been computed, for one row of a port.
 *
 * @param {Source[]} sources
 * @param {Port} port
 * @param {Record<string, Float32Array>} values
 */
function summed(sources, port, values) {
  const total = zeros(port);
  for (const { of = '' } of sources) {
    if (of in values) values[of].forEach((each, i) => (total[i] += each));
  }
  return total;
}

/**
 * Returns zeros for one row of a port.
 *
 * @param {Port} port
 */
function zeros({ shape }) {
  return new Float32Array(shape.slice(1).reduce((product, n) => product * n, 1));
}

/**
 * Returns the pixel at the top left of each of the rows and columns of an NHWC shape.
 *
 * @param {Float32Array} pixels of `size.height` by `size.width`
 * @param {number[]} shape
 * @param {{ height: number, width: number } | undefined} size
 */
export function atCells(pixels, shape, size) {
  const [, rows, columns] = shape;
  const { height, width } = size ?? { height: rows, width: columns };
  if (rows === height && columns === width) return pixels;
  const channels = pixels.length / (height * width);
  const [down, across] = [Math.floor(height / rows), Math.floor(width / columns)];
  return Float32Array.from({ length: rows * columns * channels }, (_, i) => {
    const [cell, channel] = [Math.floor(i / channels), i % channels];
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    return pixels[(row * down * width + column * across) * channels + channel];
  });
}

/**
 * Returns arrays of one row joined along an axis of the shape that they make together.
 *
 * @param {Tensor[]} parts
 * @param {number[]} shape
 * @param {number} axis
 * @returns {Float32Array}
 */
export function joinedAlong(parts, shape, axis) {
  const before = shape.slice(1, axis < 0 ? shape.length + axis : axis);
  const outer = before.reduce((product, n) => product * n, 1);
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (let i = 0; i < outer; i++) {
    for (const part of parts) {
      const inner = part.length / outer;
      whole.set(part.subarray(i * inner, (i + 1) * inner), at);
      at += inner;
    }
  }
  return whole;
}
