import { rowInputs } from './inputs.js';
import { joinedRows } from './tiles.js';

/**
 * @typedef {import('./calls.js').Call} Call
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').Port} Port
 * @typedef {(inputs: import('./rows.js').Tensors) => Promise<Record<string, Float32Array>>} Run
 */

const QUARTER = 4;

/**
 * Returns the image of a latent of the shape NHWC: where the decoder takes fewer rows or columns, of tiles
 * that fade into each other, as msd/run/runtime/decode.py does.
 *
 * @param {Call} call of the decoder
 * @param {ModelFile} file
 * @param {Float32Array} latent
 * @param {number[]} shape
 * @param {Run} run
 */
export async function decodedLatent(call, file, latent, [, height, width, channels], run) {
  const tensor = call.outputs.find(({ kind }) => kind === 'image')?.tensor ?? '';
  const given = portOf(file.inputs, call.inputs[0].name);
  const [, rows, columns] = given.shape;
  if (rows === height && columns === width) return (await run(rowInputs(call, file, { latent })))[tensor];
  const made = portOf(file.outputs, tensor);
  const whole = { rows: height, columns: width, scale: made.shape[1] / rows, channels: made.shape[3] };
  return inTiles(whole, rows, columns, async (top, left) => {
    const tile = cut(latent, width, channels, { top, left, rows, columns });
    return (await run({ [given.name]: tile }))[tensor];
  });
}

/**
 * Returns what the encoder computes of an image, by tensors, in tiles where it takes fewer pixels, as
 * msd/run/runtime/image_encoder.py does.
 *
 * @param {Call} call of the encoder
 * @param {ModelFile} file
 * @param {Float32Array} image
 * @param {{ height: number, width: number }} size of the image
 * @param {Run} run
 */
export async function encodedPixels(call, file, image, { height, width }, run) {
  const given = portOf(file.inputs, call.inputs[0].name);
  const [, high, wide] = given.shape;
  if (high === height && wide === width) return run({ [given.name]: image });
  /** @type {Record<string, Float32Array>} */
  const found = {};
  for (const { tensor } of call.outputs) {
    const [, rows, columns, channels] = portOf(file.outputs, tensor).shape;
    const cell = high / rows;
    const whole = { rows: height / cell, columns: width / cell, scale: 1, channels };
    found[tensor] = await inTiles(whole, rows, columns, async (top, left) => {
      const tile = cut(image, width, 3, { top: top * cell, left: left * cell, rows: high, columns: wide });
      return (await run({ [given.name]: tile }))[tensor];
    });
  }
  return found;
}

/**
 * Returns all rows of what `run` computes of tiles, of which neighbours share a quarter.
 *
 * @param {{ rows: number, columns: number, scale: number, channels: number }} whole
 * @param {number} rows of a tile
 * @param {number} columns of a tile
 * @param {import('./tiles.js').Run} run
 */
async function inTiles(whole, rows, columns, run) {
  const result = new Float32Array(whole.scale ** 2 * whole.rows * whole.columns * whole.channels);
  const tiling = { rows, columns, overlap: Math.floor(Math.min(rows, columns) / QUARTER), multiple: 1 };
  let at = 0;
  for await (const part of joinedRows(whole, tiling, run)) {
    result.set(part, at);
    at += part.length;
  }
  return result;
}

/**
 * @param {Float32Array} image
 * @param {number} width
 * @param {number} channels
 * @param {{ top: number, left: number, rows: number, columns: number }} box
 */
function cut(image, width, channels, { top, left, rows, columns }) {
  const tile = new Float32Array(rows * columns * channels);
  for (let row = 0; row < rows; row++) {
    const first = ((top + row) * width + left) * channels;
    tile.set(image.subarray(first, first + columns * channels), row * columns * channels);
  }
  return tile;
}

/**
 * @param {Port[]} ports
 * @param {string} name
 */
function portOf(ports, name) {
  return /** @type {Port} */ (ports.find((port) => port.name === name));
}
