import { controlOf, hintsOf } from './calls.js';
import { edgesOf } from './canny.js';
import { MsdError } from './errors.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./calls.js').Call} Call
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 */

/**
 * A picture by which the ControlNet `name` steers: RGB in [-1, 1], as large as the model's images. Its
 * outputs count `scale` times, in the steps from `begin` to `until`, as parts of all. `description` says in a
 * picture's metadata what it is.
 *
 * @typedef {object} Control
 * @property {string} name
 * @property {Float32Array} pixels
 * @property {number} [scale]
 * @property {number} [begin]
 * @property {number} [until]
 * @property {string} [description]
 */

/** The factor of a ControlNet's first output in guess mode; that of its last is 1. */
const LEAST_GUESS = 0.1;
const MOST_SCALE = 1000;

/**
 * Returns the names of a model's ControlNets.
 *
 * @param {{ calls: Call[] }} app
 */
export function controlNames({ calls }) {
  return calls.flatMap(hintsOf);
}

/**
 * Throws 'bad-request' for controls that a model does not have, that do not fit it, or count out of bounds.
 *
 * @param {AppManifest} app
 * @param {{ controls?: Control[], guess?: boolean }} request
 */
export function requireControls(app, { controls = [], guess = false }) {
  const known = controlNames(app);
  if (guess && !controls.length) throw bad('guess mode is for pictures that steer: give a control');
  for (const [i, { name, pixels, scale = 1, begin = 0, until = 1 }] of controls.entries()) {
    if (!known.includes(name)) {
      throw bad(`this model has no ControlNet ${name}; it has ${known.join(', ') || 'none'}`);
    }
    if (controls.findIndex((each) => each.name === name) < i) throw bad(`the control ${name} is given twice`);
    if (pixels.length !== 3 * app.height * app.width) {
      throw bad(`the picture of the control ${name} should have ${app.width} times ${app.height} pixels`);
    }
    if (!(Math.abs(scale) <= MOST_SCALE)) {
      throw bad(`the scale ${scale} should be a number up to ${MOST_SCALE}`);
    }
    if (!(begin >= 0 && begin < until && until <= 1)) {
      throw bad(`the control ${name} counts from ${begin} until ${until}; both are parts of all steps`);
    }
  }
}

/**
 * Throws 'bad-request' where the control `name`, which has an image file, has pixels too.
 *
 * @param {string} name
 * @param {Float32Array} pixels
 */
export function requireOnePicture(name, pixels) {
  if (pixels.length) throw bad(`the control ${name} has pixels and an image; one of them is its picture`);
}

/**
 * Returns a control by the picture that is shown, or, where it is a photo, by its edges.
 *
 * @param {Control & { fromPhoto?: boolean }} shown
 * @param {{ width: number, height: number }} size of pictures
 * @returns {Control}
 */
export function steeringBy({ fromPhoto, ...control }, { width, height }) {
  if (!fromPhoto) return control;
  const description = `the edges of ${control.description ?? 'a picture'}`;
  return { ...control, description, pixels: edgesOf(control.pixels, width, height) };
}

/**
 * Returns a sentence for each control that steers none of `total` runs of the denoiser.
 *
 * @param {Control[]} controls
 * @param {number} total
 */
export function idleControls(controls, total) {
  const runs = Array.from({ length: total }, (_, i) => i);
  const nowhere =
    total === 1 ? 'does not steer the one step' : `steers none of the ${total} steps`;
  return controls
    .filter((control) => !runs.some((index) => scaleAt(control, index, total)))
    .map(({ name }) => `the control ${name} ${nowhere}`);
}

/**
 * @param {Control} control
 * @param {number} index
 * @param {number} total
 */
function scaleAt({ scale = 1, begin = 0, until = 1 }, index, total) {
  return index / total >= begin && (index + 1) / total <= until ? scale : 0;
}

/**
 * Returns by how much each of `count` outputs of a ControlNet counts in run `index`, from 0, of `total`: of
 * row `row` of `rows`, of which the first of two is not steered in guess mode.
 *
 * @param {Control} control
 * @param {{ index: number, total: number, row: number, rows: number, guess: boolean, count: number }} at
 */
function scalesOf(control, { index, total, row, rows, guess, count }) {
  const size = Math.fround(guess && rows > 1 && row === 0 ? 0 : scaleAt(control, index, total));
  const factor = (/** @type {number} */ i) => (guess ? LEAST_GUESS ** (1 - i / Math.max(count - 1, 1)) : 1);
  return Float32Array.from({ length: count }, (_, i) => size * Math.fround(factor(i)));
}

/**
 * Returns what a call that takes pictures is given beside others, {} for those; null for a row that a
 * ControlNet does not steer.
 *
 * @param {Call} call
 * @param {ModelFile} file
 * @param {{ controls?: Control[], guess?: boolean }} request
 * @param {{ index: number, total: number, row: number, rows: number }} at
 */
export function steeringOf(call, file, { controls = [], guess = false }, at) {
  const steering = controls.filter(({ name }) => hintsOf(call).includes(name));
  const scales = steering.map((control) => {
    const input = call.inputs.find(({ sources }) =>
      sources.some(({ kind, of }) => kind === 'scales' && of === control.name),
    );
    const port = file.inputs.find((each) => each.name === input?.name);
    return scalesOf(control, { ...at, guess, count: port?.shape[port.shape.length - 1] ?? 0 });
  });
  if (controlOf(call) && !scales.some((each) => each.some(Boolean))) return null;
  return {
    hints: Object.fromEntries(steering.map(({ name, pixels }) => [name, pixels])),
    scales: Object.fromEntries(steering.map(({ name }, i) => [name, scales[i]])),
  };
}

/** @param {string} sentence */
function bad(sentence) {
  return new MsdError('bad-request', sentence);
}
