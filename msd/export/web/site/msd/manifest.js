import { CALL, requireCalls } from './calls.js';
import { MsdError } from './errors.js';
import {
  boolean, check, damaged, integer, list, nullable, number, oneOf, parseFormat, record, text,
} from './shape.js';

export { parseWebManifest } from './web-manifest.js';

/**
 * @typedef {import('./web-manifest.js').WebManifest} WebManifest
 * @typedef {import('./web-manifest.js').WebFile} WebFile
 * @typedef {import('./web-manifest.js').WebProgram} WebProgram
 * @typedef {import('./web-manifest.js').WebNetwork} WebNetwork
 * @typedef {import('./web-manifest.js').ExpectedOutputs} ExpectedOutputs
 * @typedef {import('./web-manifest.js').LiteRtJs} LiteRtJs
 */

/** The format of sd-manifest.json that this library reads. */
const FORMAT = 4;

/** The roles that every model has beside its networks. */
const ROLES = ['vocabulary', 'merges'];

/**
 * An input or output of a network; `layout` is 'NHWC' for images and latents.
 *
 * @typedef {object} Port
 * @property {string} name
 * @property {number[]} shape
 * @property {'float32' | 'int32'} dtype
 * @property {string} layout
 */

/**
 * A file of the model: `role` is a network's, or 'vocabulary' or 'merges', which have no signature; `title`
 * is the role in people's words.
 *
 * @typedef {object} ModelFile
 * @property {string} name
 * @property {string} role
 * @property {string} title
 * @property {number} bytes
 * @property {string} sha256
 * @property {string | null} signature
 * @property {Port[]} inputs
 * @property {Port[]} outputs
 */

/**
 * The coefficients of one run of the network, for latents x, the network's output o and normal noise n.
 *
 * The network's input is `scale`·x. The clean latents are c = `clean_latent`·x + `clean_output`·o, clipped
 * to ±`clip` where that is set. A step reads kᵢ, what the step i steps ago kept, and the saved latents s,
 * which it first replaces where it has coefficients `save`, of x, o, n, the former s, k₁, k₂ and so on. The
 * next latents are `latent`·x + `output`·o + `clean`·c + `saved`·s + `history`ᵢ·kᵢ + `noise`·n.
 *
 * A step keeps c, or `kept_latent`·x + `kept_output`·o where these are set; `keeps` says how many of the
 * latest the steps that follow read. Latents before this step are `signal`·k + `sigma`·n for known clean
 * latents k.
 *
 * @typedef {object} Step
 * @property {number} timestep
 * @property {number} latent
 * @property {number} output
 * @property {number} clean
 * @property {number} clean_latent
 * @property {number} clean_output
 * @property {number | null} clip
 * @property {number} saved
 * @property {number[]} history
 * @property {number} noise
 * @property {number[]} save
 * @property {number} kept_latent
 * @property {number} kept_output
 * @property {number} keeps
 * @property {number} scale
 * @property {number} signal
 * @property {number} sigma
 */

/**
 * The runs of the network for one image of `count` steps, in order: some schedulers run it twice a step. It
 * begins with normal noise times `start`.
 *
 * @typedef {object} Schedule
 * @property {number} count
 * @property {number} runs
 * @property {number} start
 * @property {Step[]} steps
 */

/**
 * The schedule of an image that begins from an image, of whose steps `strength` leaves some.
 *
 * @typedef {object} ImageSchedule
 * @property {number} strength
 * @property {Schedule} schedule
 */

/**
 * How a model reads an image: the value that generation begins from, null where the image only steers;
 * whether there is none without an image, or without a mask.
 *
 * @typedef {object} ImageFacts
 * @property {string | null} [initial]
 * @property {boolean} required
 * @property {boolean} inpaints
 * @property {ImageSchedule[]} schedules
 */

/**
 * @typedef {'two passes' | 'batch 2' | 'embedding' | 'none'} GuidanceMode
 */

/**
 * The guidance mode at `scale`, the model's default.
 *
 * @typedef {object} GuidanceFacts
 * @property {GuidanceMode} mode
 * @property {number} scale
 */

/**
 * How the network `role` enlarges a picture `scale` times along each side, a tile at a time: `input` and
 * `output` are its tensors, RGB in [-1, 1], and `tiles` are in pixels of the picture as it was.
 *
 * @typedef {object} UpscalerFacts
 * @property {string} role
 * @property {string} input
 * @property {string} output
 * @property {number} scale
 * @property {import('./tiles.js').Tiling} tiles
 */

/**
 * A token that is matched before the text is split into words, after lower-casing it if `normalized`;
 * `further` are the ids after `id` of a token with several vectors.
 *
 * @typedef {object} SpecialToken
 * @property {string} content
 * @property {number} id
 * @property {boolean} normalized
 * @property {number[]} further
 */

/**
 * The ids of the start, end, unknown and padding tokens, the tokens of a text, and the special tokens.
 *
 * @typedef {object} TokenizerFacts
 * @property {number} start
 * @property {number} end
 * @property {number} unknown
 * @property {number} pad
 * @property {number} length
 * @property {SpecialToken[]} specials
 */

/**
 * The origin of the weights: the checkpoint's kind and name, its files' SHA-256, and its licence if that is
 * known.
 *
 * @typedef {object} WeightsOrigin
 * @property {string} kind
 * @property {string} name
 * @property {Record<string, string>} sha256
 * @property {string | null} [licence]
 */

/**
 * The content of sd-manifest.json, as far as the page reads it (msd/export/app/manifest.py).
 *
 * `calls` say what each network is given, when it runs, and what it computes. `height` and `width` are in
 * pixels, `latent` is NHWC. `prompt_chunks` outputs of a text encoder follow each other. `preview` is the
 * role of the network that decodes previews, `image` says how the model reads an image; null where it does
 * neither.
 *
 * @typedef {object} AppManifest
 * @property {number} format
 * @property {string} model
 * @property {ModelFile[]} files
 * @property {import('./calls.js').Call[]} calls
 * @property {number} height
 * @property {number} width
 * @property {number[]} latent
 * @property {string} prediction
 * @property {string} scheduler
 * @property {Schedule[]} schedules
 * @property {GuidanceFacts} guidance
 * @property {Record<string, TokenizerFacts>} tokenizers by the names that calls have for them
 * @property {string} recipe
 * @property {string} precision
 * @property {Record<string, string>} versions of the converter, 'msd', and its libraries
 * @property {WeightsOrigin} weights
 * @property {number} min_memory in bytes
 * @property {string | null} [preview]
 * @property {ImageFacts | null} [image]
 * @property {UpscalerFacts | null} [upscaler]
 * @property {number} prompt_chunks
 */

const PORT = { name: text, shape: list(integer), dtype: oneOf(['float32', 'int32']), layout: text };
const FILE = {
  name: fileName, role: text, title: text, bytes: integer, sha256: text, signature: nullable(text),
  inputs: list(PORT), outputs: list(PORT),
};
const NUMBERS = [
  'timestep', 'latent', 'output', 'clean', 'clean_latent', 'clean_output', 'saved', 'noise', 'kept_latent',
  'kept_output', 'scale', 'signal', 'sigma',
];
const STEP = {
  ...Object.fromEntries(NUMBERS.map((name) => [name, number])),
  clip: nullable(number), history: list(number), save: list(number), keeps: integer,
};
const SCHEDULE = { count: integer, runs: integer, start: number, steps: list(STEP) };
const SPECIAL = { content: text, id: integer, normalized: boolean, further: list(integer) };

const UPSCALER = {
  role: text, input: text, output: text, scale: integer,
  tiles: { rows: integer, columns: integer, overlap: integer, multiple: integer },
};

const MANIFEST = {
  model: text,
  files: list(FILE),
  calls: list(CALL),
  height: integer, width: integer, latent: list(integer), prediction: text, scheduler: text,
  schedules: list(SCHEDULE),
  guidance: {
    mode: oneOf(['two passes', 'batch 2', 'embedding', 'none']),
    scale: number,
  },
  tokenizers: record({
    start: integer, end: integer, unknown: integer, pad: integer, length: integer, specials: list(SPECIAL),
  }),
  recipe: text, precision: text, versions: record(text),
  weights: { kind: text, name: text, licence: nullable(text) },
  min_memory: integer, preview: nullable(text), prompt_chunks: integer,
  image: nullable({
    initial: nullable(text), required: boolean, inpaints: boolean,
    schedules: list({ strength: number, schedule: SCHEDULE }),
  }),
  upscaler: nullable(UPSCALER),
};

/**
 * Returns the manifest that the text of sd-manifest.json is.
 *
 * Throws 'bad-manifest' for a text that is no JSON, of another format, or lacks what generating needs.
 *
 * @param {string} json
 * @returns {AppManifest}
 */
export function parseAppManifest(json) {
  const manifest = /** @type {AppManifest} */ (parseFormat(json, FORMAT, 'sd-manifest.json'));
  check(MANIFEST, manifest, 'sd-manifest.json');
  for (const role of ROLES) modelFile(manifest, role);
  requireCalls(manifest);
  if (manifest.upscaler) requireTiles(manifest, manifest.upscaler);
  if (manifest.schedules.length === 0) throw damaged('sd-manifest.json has no schedule');
  const begun = manifest.image?.schedules.map(({ schedule }) => schedule) ?? [];
  [...manifest.schedules, ...begun].forEach(requireSteps);
  return manifest;
}

/**
 * Returns the file with a role; throws 'bad-manifest' where the manifest lists none.
 *
 * @param {AppManifest} manifest
 * @param {string} role
 * @returns {ModelFile}
 */
export function modelFile(manifest, role) {
  const file = manifest.files.find((one) => one.role === role);
  if (!file) throw damaged(`sd-manifest.json lists no file with the role ${role}`);
  return file;
}

/**
 * Returns how the model begins from an image; throws 'bad-request' where it cannot.
 *
 * @param {AppManifest} manifest
 * @returns {ImageFacts}
 */
export function imageFacts({ image }) {
  if (image) return image;
  const reason = 'it was exported without an image encoder';
  throw new MsdError('bad-request', `this model begins from no image: ${reason}`);
}

/**
 * @param {AppManifest} manifest
 * @param {UpscalerFacts} upscaler
 */
function requireTiles(manifest, { role, input, output, scale, tiles }) {
  const { name, inputs, outputs } = modelFile(manifest, role);
  const { rows, columns, overlap, multiple } = tiles;
  const shape = (/** @type {Port[]} */ ports, /** @type {string} */ tensor) =>
    ports.find((port) => port.name === tensor)?.shape.join();
  const fits =
    shape(inputs, input) === [1, rows, columns, 3].join() &&
    shape(outputs, output) === [1, scale * rows, scale * columns, 3].join();
  const possible =
    overlap >= 0 && overlap < Math.min(rows, columns) &&
    multiple > 0 && rows % multiple === 0 && columns % multiple === 0;
  if (!fits || !possible) throw damaged(`sd-manifest.json has tiles of an upscaler that do not fit ${name}`);
}

/** @param {Schedule} schedule */
function requireSteps({ runs, steps }) {
  if (steps.length === 0 || steps.length !== runs) {
    throw damaged(`sd-manifest.json has a schedule of ${runs} runs with ${steps.length}`);
  }
}

/**
 * @param {unknown} value
 * @param {string} where
 */
function fileName(value, where) {
  check(text, value, where);
  if (/^[^/\\\p{Cc}]+$/u.test(/** @type {string} */ (value)) && value !== '.' && value !== '..') return;
  throw damaged(`${where} is ${JSON.stringify(value)}, not a plain file name`);
}
