import { MsdError, checkCancelled } from './errors.js';
import { modelFile } from './manifest.js';
import { posteriorNoise } from './noise.js';

/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').ModelFile} ModelFile
 * @typedef {import('./manifest.js').WebManifest} WebManifest
 * @typedef {import('./manifest.js').WebNetwork} WebNetwork
 * @typedef {import('./manifest.js').WebFile} WebFile
 * @typedef {import('./network.js').Network} Network
 * @typedef {import('./progress.js').Watch} Watch
 * @typedef {import('./network.js').Tensors} Tensors
 */

export const FORMAT = 1;
const REPEATS = 10;

/** Milliseconds of runs after which no further one begins, so that slow GPUs end too. */
const ENOUGH = 5000;

/**
 * The distance of an output from LiteRT's on the CPU; `psnr_db` is 20·log10(max |wanted| / rmse), null where
 * it is infinite or undefined.
 *
 * @typedef {{ output: string, psnr_db: number | null, max_difference: number | null, max_reference: number,
 *   finite: boolean, identical: boolean }} Distance
 */

/**
 * What a network did on this GPU. Milliseconds; `outputs` is empty where the export brought none along;
 * `gpu_bytes` of all buffers, and `dispatches`, are null where the runtime does not tell.
 *
 * @typedef {object} NetworkVerdict
 * @property {string} role
 * @property {string} title the role in people's words
 * @property {string} sha256
 * @property {number} operations
 * @property {number} delegated
 * @property {number} partitions
 * @property {number | null} dispatches
 * @property {number | null} open_ms
 * @property {number | null} first_ms
 * @property {number[]} runs_ms
 * @property {Distance[]} outputs
 * @property {number | null} gpu_bytes
 * @property {string | null} failure
 * @property {string[]} log
 */

/**
 * @typedef {object} Subject
 * @property {WebManifest} web
 * @property {AppManifest} app
 * @property {import('./gpu.js').Gpu} gpu
 * @property {(role: string) => Promise<Network>} open
 * @property {(file: WebFile) => Promise<ArrayBuffer>} read
 * @property {number} [repeats] of each network's run at most, and fewer where that takes seconds
 * @property {Watch['signal']} [signal]
 * @property {Watch['onProgress']} [onProgress]
 */

/**
 * Returns what each network of a model did on this GPU: one after the other, each freed before the next.
 *
 * @param {Subject} subject
 */
export async function judgeNetworks(subject) {
  const { web, app, gpu } = subject;
  /** @type {NetworkVerdict[]} */
  const networks = [];
  for (const network of web.networks) {
    checkCancelled(subject.signal);
    const file = modelFile(app, network.role);
    subject.onProgress?.({ stage: 'measuring', network: file.title });
    networks.push(await judgeNetwork(subject, network, file));
  }
  return {
    format: FORMAT,
    runtime: web.runtime,
    api: 'WebGPU',
    model: web.model,
    precision: gpu.precision,
    adapter: gpu.name,
    features: gpu.features,
    limits: gpu.limits,
    browser: globalThis.navigator?.userAgent ?? '',
    cores: globalThis.navigator?.hardwareConcurrency ?? 1,
    versions: app.versions,
    networks,
  };
}

/** @param {WebManifest} web */
export function expectedFiles(web) {
  return web.networks.flatMap((network) => Object.values(network.expected?.outputs ?? {}));
}

/**
 * Returns the inputs that an export computed expected outputs for: each input of floats has its own stream of
 * noise.
 *
 * @param {ModelFile} file
 * @param {{ seed: number, tokens: number, end?: number | null }} expected
 * @returns {Tensors}
 */
export function expectedInputs(file, { seed, tokens, end = null }) {
  const inputs = file.inputs.map((port, i) => {
    const size = port.shape.reduce((product, n) => product * n, 1);
    return [port.name, port.dtype === 'int32' ? counted(size, tokens, end) : posteriorNoise(seed, size, i)];
  });
  return Object.fromEntries(inputs);
}

/**
 * @param {Subject} subject
 * @param {WebNetwork} network
 * @param {ModelFile} file
 * @returns {Promise<NetworkVerdict>}
 */
async function judgeNetwork(subject, network, file) {
  const verdict = emptyVerdict(network, file);
  const inputs = expectedInputs(file, network.expected ?? { seed: 0, tokens: 100 });
  try {
    await measure(subject, verdict, network, inputs);
  } catch (problem) {
    if (problem instanceof MsdError && problem.code === 'cancelled') throw problem;
    verdict.failure = problem instanceof Error ? problem.message : String(problem);
  }
  return verdict;
}

/**
 * @param {Subject} subject
 * @param {NetworkVerdict} verdict
 * @param {WebNetwork} network
 * @param {Tensors} inputs
 */
async function measure(subject, verdict, network, inputs) {
  const begin = performance.now();
  const opened = await subject.open(network.role);
  try {
    verdict.open_ms = performance.now() - begin;
    const started = performance.now();
    const outputs = await opened.run(inputs);
    verdict.first_ms = performance.now() - started;
    verdict.delegated = opened.facts.delegated ?? network.operations;
    verdict.partitions = opened.facts.partitions ?? 1;
    verdict.dispatches = opened.facts.dispatches ?? null;
    verdict.gpu_bytes = opened.facts.memory ?? null;
    verdict.log = opened.facts.log ?? [];
    verdict.outputs = await compare(subject, network, outputs);
    verdict.runs_ms = await timeRuns(subject, opened, inputs);
  } finally {
    opened.close();
  }
}

/**
 * @param {Subject} subject
 * @param {Network} opened
 * @param {Tensors} inputs
 */
async function timeRuns(subject, opened, inputs) {
  /** @type {number[]} */
  const runs = [];
  let taken = 0;
  while (runs.length < (subject.repeats ?? REPEATS) && taken < ENOUGH) {
    checkCancelled(subject.signal);
    const [milliseconds] = await opened.time(inputs, 1);
    runs.push(milliseconds);
    taken += milliseconds;
  }
  return runs;
}

/**
 * @param {Subject} subject
 * @param {WebNetwork} network
 * @param {Tensors} outputs
 */
async function compare(subject, network, outputs) {
  const distances = [];
  for (const [name, file] of Object.entries(network.expected?.outputs ?? {})) {
    distances.push(distance(name, outputs[name], new Float32Array(await subject.read(file))));
  }
  return distances;
}

/**
 * Returns the distance of an output from what was expected.
 *
 * @param {string} output
 * @param {Float32Array | Int32Array | undefined} found
 * @param {Float32Array} wanted
 * @returns {Distance}
 * @throws {MsdError} 'damaged' for arrays of unlike sizes
 */
export function distance(output, found, wanted) {
  if (found?.length !== wanted.length) {
    const count = found?.length ?? 0;
    throw new MsdError('damaged', `${output} has ${count} numbers, and ${wanted.length} are expected.`);
  }
  let [squares, most, largest] = [0, 0, 0];
  for (let i = 0; i < wanted.length; i += 1) {
    const difference = Math.abs(found[i] - wanted[i]);
    squares += difference * difference;
    most = Math.max(most, difference);
    largest = Math.max(largest, Math.abs(wanted[i]));
  }
  const psnr = 20 * Math.log10(largest / Math.sqrt(squares / wanted.length));
  return {
    output,
    psnr_db: Number.isFinite(psnr) ? psnr : null,
    max_difference: Number.isFinite(most) ? most : null,
    max_reference: largest,
    finite: found.every(Number.isFinite),
    identical: most === 0,
  };
}

/**
 * @param {WebNetwork} network
 * @param {ModelFile} file
 * @returns {NetworkVerdict}
 */
function emptyVerdict(network, file) {
  return {
    role: network.role,
    title: file.title,
    sha256: file.sha256,
    operations: network.operations,
    delegated: 0,
    partitions: 0,
    dispatches: null,
    open_ms: null,
    first_ms: null,
    runs_ms: [],
    outputs: [],
    gpu_bytes: null,
    failure: null,
    log: [],
  };
}

/**
 * @param {number} size
 * @param {number} below
 * @param {number | null} end
 */
function counted(size, below, end) {
  const ids = Int32Array.from({ length: size }, (_, i) => i % below);
  if (end !== null) ids[size - 1] = end;
  return ids;
}
