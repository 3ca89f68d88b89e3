import { wiringOf } from './calls.js';
import { guidanceOf } from './guidance.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 */

/**
 * Returns what a model is called, makes and takes: `steps` that it offers, the default first, and how it
 * begins from an image, with the strengths of each number of steps, or null.
 *
 * @param {AppManifest} app
 * @param {WebManifest} web
 */
export function factsOf(app, web) {
  return {
    name: web.name,
    example: web.example,
    licence: app.weights.licence,
    width: app.width,
    height: app.height,
    steps: app.schedules.map((schedule) => schedule.count),
    scheduler: app.scheduler,
    guidance: app.guidance.scale,
    mode: guidanceOf(app, app.guidance.scale).mode,
    preview: app.preview !== null,
    image: app.image && {
      required: app.image.required,
      inpaints: app.image.inpaints,
      strengths: strengthsOf(app.image),
    },
  };
}

/**
 * Returns the files that generating needs, with programs of a kind (Gpu.kind).
 *
 * @param {WebManifest} web
 * @param {string} kind
 */
export function filesOf(web, kind) {
  return [web.vocabulary, web.merges, ...web.networks.flatMap((network) => networkFiles(network, kind))];
}

/**
 * Returns the bytes of files, of each content once.
 *
 * @param {WebFile[]} files
 */
export function bytesOf(files) {
  const bytes = new Map(files.map((file) => [file.sha256, file.bytes]));
  return [...bytes.values()].reduce((sum, each) => sum + each, 0);
}

/**
 * Returns the bytes on the GPU while the networks of every step and the largest other one are open; 0 where
 * that is unknown.
 *
 * @param {AppManifest} app
 * @param {WebManifest} web
 * @param {string} kind of programs
 */
export function peakOf(app, web, kind) {
  const stays = new Set(wiringOf(app).steps.map(({ component }) => component));
  const memory = (/** @type {boolean} */ staying) =>
    web.networks
      .filter((network) => stays.has(network.role) === staying)
      .map((network) => network.programs[kind]?.memory ?? 0);
  return memory(true).reduce((sum, each) => sum + each, 0) + Math.max(0, ...memory(false));
}

/**
 * @param {WebNetwork} network
 * @param {string} kind of programs
 */
function networkFiles(network, kind) {
  const program = network.programs[kind];
  return program ? [program.program, ...program.shards] : network.model;
}

/** @param {import('./manifest.js').ImageFacts} image */
function strengthsOf(image) {
  /** @type {Record<string, number[]>} */
  const strengths = {};
  for (const { strength, schedule } of image.schedules) (strengths[schedule.count] ??= []).push(strength);
  return strengths;
}
