import { hintsOf, wiringOf } from './calls.js';
import { guidanceOf } from './guidance.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 */

/**
 * Returns what a model is called, makes and takes: `steps` that it offers, the default first, and how it
 * begins from an image, with the strengths of each number of steps, or null; its ControlNets and its
 * upscaler, with the roles of their networks.
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
    controls: controlsOf(app),
    upscaler: app.upscaler ? { role: app.upscaler.role, scale: app.upscaler.scale } : null,
  };
}

/**
 * Returns the names of a model's ControlNets, and the roles of the networks that they are, or are inside of.
 *
 * @param {AppManifest} app
 */
export function controlsOf({ calls }) {
  return calls.flatMap((call) => hintsOf(call).map((name) => ({ name, role: call.component })));
}

/**
 * Returns the roles of the optional networks that a picture needs.
 *
 * @param {AppManifest} app
 * @param {{ upscale?: number | boolean, controls?: { name: string }[] }} request
 */
export function rolesOf(app, { upscale, controls = [] }) {
  const names = controls.map(({ name }) => name);
  const roles = controlsOf(app).filter(({ name }) => names.includes(name)).map(({ role }) => role);
  return new Set(upscale && app.upscaler ? [...roles, app.upscaler.role] : roles);
}

/**
 * Returns the files that generating needs, with programs of a kind (Gpu.kind): of optional networks those of
 * the given roles.
 *
 * @param {WebManifest} web
 * @param {string} kind
 * @param {{ has: (role: string) => boolean }} [roles]
 */
export function filesOf(web, kind, roles = new Set()) {
  const networks = web.networks.filter(({ role, optional }) => !optional || roles.has(role));
  return [web.vocabulary, web.merges, ...networks.flatMap((network) => networkFiles(network, kind))];
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
 * Returns the bytes on the GPU while the networks of every step and the largest other one are open, without
 * the optional ones; 0 where that is unknown.
 *
 * @param {AppManifest} app
 * @param {WebManifest} web
 * @param {string} kind of programs
 */
export function peakOf(app, web, kind) {
  const stays = new Set(wiringOf(app).steps.map(({ component }) => component));
  const memory = (/** @type {boolean} */ staying) =>
    web.networks
      .filter(({ role, optional }) => !optional && stays.has(role) === staying)
      .map((network) => network.programs[kind]?.memory ?? 0);
  return memory(true).reduce((sum, each) => sum + each, 0) + Math.max(0, ...memory(false));
}

/**
 * Returns the files of a network.
 *
 * @param {WebNetwork} network
 * @param {string} kind of programs
 */
export function networkFiles(network, kind) {
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
