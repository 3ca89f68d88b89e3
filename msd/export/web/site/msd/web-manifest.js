import {
  boolean, check, damaged, integer, list, nullable, oneOf, parseFormat, record, text,
} from './shape.js';

/** The format of web-manifest.json that this library reads. */
const FORMAT = 1;

/** @typedef {'fp16' | 'fp32'} Precision */

/**
 * A file that the page keeps; `file` is its path from the manifest's folder, with slashes.
 *
 * @typedef {object} WebFile
 * @property {string} file
 * @property {number} bytes
 * @property {string} sha256 64 hex digits, lower case
 */

/**
 * The product of matrices that `subgroup` threads compute at once, of f16 operands with f32 sums: `rows` x
 * `depth` by `depth` x `columns`.
 *
 * @typedef {{ rows: number, columns: number, depth: number, subgroup: number }} MatrixUnit
 */

/**
 * A network compiled for one kind of GPU: its program, JSON, and the shards of its weights.
 *
 * `limits` are the least values of WebGPU's limits, by WebGPU's names, where they exceed the standard's
 * defaults; `memory` are the bytes of all its buffers on the GPU; `matrix` is the unit that its shaders need.
 *
 * @typedef {object} WebProgram
 * @property {WebFile} program
 * @property {WebFile[]} shards
 * @property {Record<string, number>} limits
 * @property {number} memory
 * @property {MatrixUnit | null} [matrix]
 */

/**
 * The outputs of LiteRT on the CPU by name, float32 in little-endian order, for inputs made from `seed`:
 * floats are normal noise from the stream of the input's number, token ids count up from 0, again and again,
 * to `tokens`; the last is `end`, if there is one.
 *
 * @typedef {object} ExpectedOutputs
 * @property {number} seed
 * @property {number} tokens
 * @property {Record<string, WebFile>} outputs
 * @property {number | null} [end]
 */

/**
 * A network by its role in sd-manifest.json, and the operations of its .tflite file; `programs` for the
 * runtime 'msd', `model`, the .tflite file in shards, for 'litert'. One that is `optional` is fetched when a
 * picture needs it.
 *
 * @typedef {object} WebNetwork
 * @property {string} role
 * @property {number} operations
 * @property {boolean | null} [optional]
 * @property {Record<string, WebProgram>} programs by kind: a precision, alone or with what else it is for
 * @property {WebFile[]} model
 * @property {ExpectedOutputs | null} [expected]
 */

/**
 * LiteRT.js beside the page: its version, the path of its module, and that of its folder of WebAssembly.
 *
 * @typedef {object} LiteRtJs
 * @property {string} version
 * @property {string} module
 * @property {string} wasm
 */

/**
 * The content of web-manifest.json (msd/export/web/manifest.py): what the page fetches before it generates.
 *
 * `model` identifies the bundle, as in sd-manifest.json; `app` is that file, `vocabulary` and `merges` the
 * tokenizer's. `name` is what the page calls the model, `example` a prompt to begin with, or empty.
 *
 * @typedef {object} WebManifest
 * @property {number} format
 * @property {'msd' | 'litert'} runtime
 * @property {string} model
 * @property {string} name
 * @property {string} example
 * @property {WebFile} app
 * @property {WebFile} vocabulary
 * @property {WebFile} merges
 * @property {WebNetwork[]} networks
 * @property {LiteRtJs | null} [litert]
 */

const MATRIX = { rows: integer, columns: integer, depth: integer, subgroup: integer };
const PROGRAM = {
  program: webFile,
  shards: list(webFile),
  limits: record(integer),
  memory: integer,
  matrix: nullable(MATRIX),
};
const EXPECTED = { seed: integer, tokens: integer, outputs: record(webFile), end: nullable(integer) };

const MANIFEST = {
  runtime: oneOf(['msd', 'litert']),
  model: text,
  name: text,
  example: text,
  app: webFile,
  vocabulary: webFile,
  merges: webFile,
  networks: list({
    role: text,
    operations: integer,
    optional: nullable(boolean),
    programs: record(PROGRAM),
    model: list(webFile),
    expected: nullable(EXPECTED),
  }),
  litert: nullable({ version: text, module: litertPath, wasm: litertPath }),
};

/**
 * Returns the manifest that the text of web-manifest.json is.
 *
 * Throws 'bad-manifest' for a text that is no JSON, of another format, names a file outside the page, or
 * lacks what its runtime needs.
 *
 * @param {string} json
 * @returns {WebManifest}
 */
export function parseWebManifest(json) {
  const manifest = /** @type {WebManifest} */ (parseFormat(json, FORMAT, 'web-manifest.json'));
  check(MANIFEST, manifest, 'web-manifest.json');
  manifest.networks.forEach((network) => requireRunnable(network, manifest));
  return manifest;
}

/**
 * @param {WebNetwork} network
 * @param {WebManifest} manifest
 */
function requireRunnable({ role, programs, model }, { runtime, litert }) {
  const there = runtime === 'msd' ? Object.keys(programs).length > 0 : model.length > 0 && litert;
  if (!there) throw damaged(`web-manifest.json has nothing that the runtime ${runtime} could run as ${role}`);
}

/**
 * @param {unknown} value
 * @param {string} where
 */
function webFile(value, where) {
  check({ file: webPath, bytes: integer, sha256: text }, value, where);
  const { bytes, sha256 } = /** @type {WebFile} */ (value);
  if (bytes < 0) throw damaged(`${where}.bytes is ${bytes}, less than 0`);
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw damaged(`${where}.sha256 is not 64 hex digits`);
}

/**
 * Checks that a path stays in the page's folder: another origin, or a folder above, is none of ours.
 *
 * @param {unknown} value
 * @param {string} where
 */
function webPath(value, where) {
  check(text, value, where);
  const parts = /** @type {string} */ (value).split('/');
  if (parts.every((part) => /^[\w@.-]+$/.test(part) && part !== '.' && part !== '..')) return;
  throw damaged(`${where} is ${JSON.stringify(value)}, not a path inside the page's folder`);
}

/**
 * Checks a path of LiteRT.js, which may stand beside the manifest's folder; a folder may end with a slash.
 *
 * @param {unknown} value
 * @param {string} where
 */
function litertPath(value, where) {
  check(text, value, where);
  webPath(/** @type {string} */ (value).replace(/^\.\.?\//, '').replace(/\/$/, ''), where);
}
