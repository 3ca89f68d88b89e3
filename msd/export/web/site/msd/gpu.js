import { BROWSERS } from './browsers.js';
import { MsdError } from './errors.js';
import { MATRIX_FEATURES, hasUnit } from './matrices.js';

/**
 * A GPU that the browser offers, as plain data: nothing is open yet.
 *
 * @typedef {object} Gpu
 * @property {string} name its vendor and architecture, as far as the browser tells
 * @property {Record<string, string>} info what the browser tells of the adapter
 * @property {string[]} features
 * @property {Record<string, number>} limits
 * @property {'fp16' | 'fp32'} precision fp16 where it has shader-f16
 * @property {string} kind which of the model's programs it runs
 * @property {string} fallback the kind that runs where matrix units are refused; else `kind`
 * @property {Record<string, number>} needs the limits beyond WebGPU's defaults that these programs need
 * @property {string[]} problems sentences: what keeps the model from running here; empty where nothing does
 */

/**
 * The part of web-manifest.json that says what a model needs.
 *
 * @typedef {import('./matrices.js').MatrixUnit} MatrixUnit
 * @typedef {Record<string, { limits: Record<string, number>, matrix?: MatrixUnit | null }>} ByKind
 * @typedef {{ optional?: boolean | null, programs: ByKind }} Programs
 * @typedef {{ networks: Programs[] }} Needs
 */

const NO_WEBGPU = `This browser has no WebGPU. ${BROWSERS}`;
const INSECURE =
  'This page was not opened securely, and browsers offer WebGPU only where it was: use HTTPS, or localhost.';
const NO_HALF = 'This GPU has no shader-f16, which arithmetic in float16 needs.';
const NO_ADAPTER =
  'The browser has WebGPU, but lets it use no GPU of this device. An update of the browser or of the ' +
  "graphics driver may help; Chrome's page chrome://gpu says why.";

/**
 * Vendors whose GPUs run the programs for discrete ones: WebGPU does not say how many processors a GPU has.
 */
const DISCRETE = ['nvidia'];

/**
 * Looks for a GPU; never throws.
 *
 * @param {Needs} [manifest] of the model that should run on it
 * @param {'fp16' | 'fp32'} [wanted] another precision than the best
 * @returns {Promise<Gpu>}
 */
export async function findGpu(manifest, wanted) {
  if (globalThis.isSecureContext === false) return none(INSECURE);
  if (!globalThis.navigator?.gpu) return none(NO_WEBGPU);
  const adapter = await requestAdapter();
  if (!adapter) return none(NO_ADAPTER);
  const features = [...adapter.features].sort();
  const half = features.includes('shader-f16');
  const precision = wanted ?? (half ? 'fp16' : 'fp32');
  const limits = numbers(adapter.limits);
  const info = infoOf(adapter.info);
  const fallback = kindOf(manifest, precision, info.vendor);
  const kind = matrixKindOf(manifest, precision, adapter, limits) ?? fallback;
  const needs = needsOf(manifest, [kind, fallback], limits);
  const problems = shortfalls(limits, needs);
  if (precision === 'fp16' && !half) problems.unshift(NO_HALF);
  const name = [...new Set([info.vendor, info.architecture, info.device])].filter(Boolean).join(' ') || 'GPU';
  return { name, info, features, limits, precision, kind, fallback, needs, problems };
}

/**
 * Opens a device with what the model needs; several may be open.
 *
 * @param {Gpu} gpu
 * @returns {Promise<GPUDevice>}
 * @throws {MsdError} no-webgpu, too-small, failed
 */
export async function openDevice(gpu) {
  const problem = gpu.problems[0];
  if (problem) throw new MsdError(gpu.name ? 'too-small' : 'no-webgpu', problem);
  const adapter = await requestAdapter();
  if (!adapter) throw new MsdError('no-webgpu', NO_ADAPTER);
  const half = gpu.precision === 'fp16' ? ['shader-f16'] : [];
  const features = gpu.kind === gpu.fallback ? half : [...half, ...MATRIX_FEATURES];
  const requiredFeatures = /** @type {GPUFeatureName[]} */ (features);
  try {
    return await adapter.requestDevice({ requiredFeatures, requiredLimits: gpu.needs });
  } catch (problem) {
    throw new MsdError('failed', `The browser does not open the GPU: ${wordsOf(problem)}`, problem);
  }
}

/** @param {unknown} problem */
export function wordsOf(problem) {
  return problem instanceof Error ? problem.message : String(problem);
}

async function requestAdapter() {
  try {
    return await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  } catch {
    return null;
  }
}

/**
 * @param {string} problem
 * @returns {Gpu}
 */
function none(problem) {
  const unknown = { info: {}, features: [], limits: {}, needs: {} };
  return { ...unknown, name: '', precision: 'fp32', kind: 'fp32', fallback: 'fp32', problems: [problem] };
}

/** @param {GPUAdapterInfo | undefined} info */
function infoOf(info) {
  const { vendor = '', architecture = '', device = '', description = '' } = info ?? {};
  return { vendor, architecture, device, description };
}

/**
 * @param {GPUSupportedLimits} limits
 * @returns {Record<string, number>}
 */
function numbers(limits) {
  /** @type {Record<string, number>} */
  const found = {};
  for (const name in limits) {
    const value = limits[/** @type {keyof GPUSupportedLimits} */ (name)];
    if (typeof value === 'number') found[name] = value;
  }
  return found;
}

/**
 * @param {Needs | undefined} manifest
 * @param {string} precision
 * @param {string} vendor
 */
function kindOf(manifest, precision, vendor) {
  const discrete = `${precision}-discrete`;
  const there = manifest?.networks.every(({ programs }) => discrete in programs);
  return there && DISCRETE.includes(vendor) ? discrete : precision;
}

/**
 * Returns the kind of programs that all networks have for a matrix unit of the adapter, within its limits.
 *
 * @param {Needs | undefined} manifest
 * @param {string} precision
 * @param {GPUAdapter} adapter
 * @param {Record<string, number>} limits
 */
function matrixKindOf(manifest, precision, adapter, limits) {
  const networks = manifest?.networks ?? [];
  const kinds = Object.keys(networks[0]?.programs ?? {}).filter((kind) => kind.startsWith(`${precision}-`));
  return kinds
    .filter((kind) => networks.every(({ programs }) => hasUnit(adapter, programs[kind]?.matrix)))
    .find((kind) => !shortfalls(limits, needsOf(manifest, [kind], limits)).length);
}

/**
 * Returns what the model needs, and those optional networks that the limits suffice for.
 *
 * @param {Needs | undefined} manifest
 * @param {string[]} kinds of programs
 * @param {Record<string, number>} limits
 */
function needsOf(manifest, kinds, limits) {
  /** @type {Record<string, number>} */
  const needs = {};
  for (const { optional, programs } of manifest?.networks ?? []) {
    const own = kinds.map((kind) => programs[kind]?.limits ?? {});
    if (optional && own.some((each) => shortfalls(limits, each).length)) continue;
    for (const [name, least] of own.flatMap(Object.entries)) {
      needs[name] = Math.max(needs[name] ?? 0, least);
    }
  }
  return needs;
}

/**
 * Returns what a GPU lacks, sentences.
 *
 * @param {Record<string, number>} limits of the GPU
 * @param {Record<string, number>} needs
 */
export function shortfalls(limits, needs) {
  return Object.entries(needs)
    .filter(([name, least]) => (limits[name] ?? 0) < least)
    .map(([name, least]) => `The model needs ${name} of ${least}; this GPU has ${limits[name] ?? 'none'}.`);
}
