import { boolean, damaged, integer, list, nullable, number, oneOf, text } from './shape.js';

/**
 * What an input of a network is made of (msd/models/families/calls.py): `kind` 'tokens' by the tokenizer
 * `of`; 'latent', times the step's scale where `scaled`; 'numbers' or 'sinusoids' `of` 'timestep', 'guidance'
 * or 'sizes'; 'pixels' of 'image', 'masked image' or 'mask'; 'hint', the picture by which the ControlNet `of`
 * steers, or 'scales', by how much each of its outputs counts; or 'value', what an earlier call computed.
 *
 * @typedef {object} Source
 * @property {'tokens' | 'latent' | 'numbers' | 'sinusoids' | 'pixels' | 'hint' | 'scales' | 'value'} kind
 * @property {string} [of]
 * @property {boolean} [scaled]
 * @property {boolean} [cosine_first]
 * @property {number[]} [frequencies] of sinusoids, descending from 1
 */

/**
 * An input by its name: sources, joined along `axis` where there are several, or if `summed` added, those of
 * them that have been computed.
 *
 * @typedef {{ name: string, sources: Source[], axis: number, summed?: boolean }} Input
 */

/**
 * An output: the `value` that later calls know it by, its `tensor`, and what it is.
 *
 * @typedef {object} Output
 * @property {string} value
 * @property {string} tensor
 * @property {'hidden states' | 'vector' | 'tensor' | 'moments' | 'latents' | 'prediction' | 'image'} kind
 * @property {number} factor of latents
 * @property {boolean} [zero_if_absent] zeros for a negative prompt that is empty
 */

/**
 * One run of a network: before the first step, in every step, between two, or after the last one.
 *
 * @typedef {object} Call
 * @property {string} component the role of the network's file
 * @property {'once' | 'step' | 'preview' | 'end'} when
 * @property {Input[]} inputs
 * @property {Output[]} outputs
 */

/**
 * A model's calls, sorted by when they run and what they depend on. The `denoiser` is the call of every step
 * that predicts; `initial` computes the latents that generation begins from.
 *
 * @typedef {object} Wiring
 * @property {Call[]} ofPrompts
 * @property {Call[]} ofImages
 * @property {Call[]} steps
 * @property {Call} denoiser
 * @property {Call} decoder
 */

const SOURCE = {
  kind: oneOf(['tokens', 'latent', 'numbers', 'sinusoids', 'pixels', 'hint', 'scales', 'value']),
  of: nullable(text),
  scaled: nullable(boolean),
  cosine_first: nullable(boolean),
  frequencies: nullable(list(number)),
};
const OUTPUT = {
  value: text,
  tensor: text,
  kind: oneOf(['hidden states', 'vector', 'tensor', 'moments', 'latents', 'prediction', 'image']),
  factor: number,
  zero_if_absent: nullable(boolean),
};

/** What a call of parsed JSON should be. */
export const CALL = {
  component: text,
  when: oneOf(['once', 'step', 'preview', 'end']),
  inputs: list({ name: text, sources: list(SOURCE), axis: integer, summed: nullable(boolean) }),
  outputs: list(OUTPUT),
};

/**
 * Returns a model's calls, sorted; throws 'bad-manifest' where one is missing that every image needs.
 *
 * @param {{ calls: Call[] }} manifest
 * @returns {Wiring}
 */
export function wiringOf({ calls }) {
  const once = calls.filter((call) => call.when === 'once');
  const makers = new Map(calls.flatMap((call) => call.outputs.map(({ value }) => [value, call])));
  /** @type {(call: Call) => boolean} */
  const readsTokens = (call) =>
    sourcesOf(call).some(({ kind, of = '' }) => {
      const maker = kind === 'value' && makers.get(of);
      return kind === 'tokens' || (maker && maker !== call && readsTokens(maker));
    });
  return {
    ofPrompts: once.filter(readsTokens),
    ofImages: once.filter((call) => !readsTokens(call)),
    steps: calls.filter((call) => call.when === 'step'),
    denoiser: computing(calls, 'step', 'prediction'),
    decoder: computing(calls, 'end', 'image'),
  };
}

/**
 * Throws 'bad-manifest' for calls that cannot run: a value or a tokenizer that is not there by then, a
 * network without a file, an input that its file does not have.
 *
 * @param {import('./manifest.js').AppManifest} manifest
 */
export function requireCalls(manifest) {
  const made = new Set();
  for (const call of manifest.calls) {
    const file = manifest.files.find(({ role }) => role === call.component);
    if (!file) throw damaged(`sd-manifest.json calls ${call.component}, of which it lists no file`);
    const names = file.inputs.map(({ name }) => name);
    for (const { name } of call.inputs) {
      if (names.includes(name)) continue;
      throw damaged(
        `sd-manifest.json calls ${call.component} with ${name}, which ${file.name} does not take`,
      );
    }
    for (const { kind, of = '' } of sourcesOf(call)) {
      const missing = (kind === 'value' && !made.has(of)) || (kind === 'tokens' && !manifest.tokenizers[of]);
      if (!missing) continue;
      throw damaged(`sd-manifest.json calls ${call.component} with ${of}, which is not there by then`);
    }
    for (const { value } of call.outputs) made.add(value);
  }
  wiringOf(manifest);
  const { preview, image } = manifest;
  if (preview && !decoderOf(manifest, preview)) throw damaged(`sd-manifest.json has no call of ${preview}`);
  if (image?.initial && !made.has(image.initial)) {
    throw damaged(`sd-manifest.json has no call that computes ${image.initial}`);
  }
}

/**
 * Returns the call that decodes previews with the network `role`.
 *
 * @param {{ calls: Call[] }} manifest
 * @param {string} role
 */
export function decoderOf({ calls }, role) {
  const shown = calls.filter(({ when }) => when === 'preview' || when === 'end');
  return /** @type {Call} */ (shown.find((call) => call.component === role));
}

/**
 * Whether a call takes numbers or sinusoids of a quantity.
 *
 * @param {{ calls: Call[] }} manifest
 * @param {string} quantity
 */
export function takes({ calls }, quantity) {
  const sources = calls.flatMap(sourcesOf);
  return sources.some(({ kind, of }) => ['numbers', 'sinusoids'].includes(kind) && of === quantity);
}

/**
 * Returns the name of the ControlNet that a call is of, and of nothing more; '' for other calls.
 *
 * @param {Call} call
 */
export function controlOf(call) {
  return call.outputs.some(({ kind }) => kind === 'prediction') ? '' : (hintsOf(call)[0] ?? '');
}

/**
 * Returns the names of the ControlNets whose pictures a call takes.
 *
 * @param {Call} call
 */
export function hintsOf(call) {
  return sourcesOf(call).flatMap(({ kind, of = '' }) => (kind === 'hint' ? [of] : []));
}

/** @param {Call} call */
export function sourcesOf({ inputs }) {
  return inputs.flatMap(({ sources }) => sources);
}

/**
 * Returns a call's outputs by the names of values.
 *
 * @param {Call} call
 * @param {Record<string, Float32Array>} outputs
 * @returns {Record<string, Float32Array>}
 */
export function named({ outputs: described }, outputs) {
  return Object.fromEntries(described.map(({ value, tensor }) => [value, outputs[tensor]]));
}

/**
 * @param {Call[]} calls
 * @param {Call['when']} when
 * @param {Output['kind']} kind
 */
function computing(calls, when, kind) {
  const found = calls.filter((call) => call.when === when && call.outputs.some((each) => each.kind === kind));
  if (found.length === 1) return found[0];
  throw damaged(`sd-manifest.json has ${found.length} calls that compute the ${kind}, and 1 was expected`);
}
