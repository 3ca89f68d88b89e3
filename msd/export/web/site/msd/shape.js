import { MsdError } from './errors.js';

/**
 * What a value of parsed JSON should be: an object of kinds, or a function that throws unless it is.
 *
 * @typedef {{ [key: string]: Kind } | Check} Kind
 * @typedef {(value: unknown, where: string) => void} Check
 */

export const text = scalar('text', (value) => typeof value === 'string');
export const integer = scalar('a whole number', Number.isSafeInteger);
export const number = scalar('a number', Number.isFinite);
export const boolean = scalar('true or false', (value) => typeof value === 'boolean');

/**
 * Throws 'bad-manifest', with the place, unless `value` is what `kind` says; keys that it does not name may
 * be there.
 *
 * @param {Kind} kind
 * @param {unknown} value
 * @param {string} where
 */
export function check(kind, value, where) {
  if (typeof kind === 'function') kind(value, where);
  else checkFields(kind, value, where);
}

/**
 * Returns the check of a value that may be null or missing.
 *
 * @param {Kind} kind
 * @returns {Check}
 */
export function nullable(kind) {
  return (value, where) => {
    if (value !== null && value !== undefined) check(kind, value, where);
  };
}

/**
 * Returns the check of a list of values of one kind.
 *
 * @param {Kind} kind
 * @returns {Check}
 */
export function list(kind) {
  return (value, where) => {
    if (!Array.isArray(value)) throw damaged(`${where} is no list`);
    value.forEach((item, i) => check(kind, item, `${where}[${i}]`));
  };
}

/**
 * Returns the check of an object of any keys, with values of one kind.
 *
 * @param {Kind} kind
 * @returns {Check}
 */
export function record(kind) {
  return (value, where) => {
    for (const [key, item] of Object.entries(objectOf(value, where))) check(kind, item, `${where}.${key}`);
  };
}

/**
 * Returns the check of a text that is one of `choices`.
 *
 * @param {readonly string[]} choices
 * @returns {Check}
 */
export function oneOf(choices) {
  return (value, where) => {
    if (!choices.includes(/** @type {string} */ (value))) {
      throw damaged(`${where} is ${JSON.stringify(value)}, not one of ${choices.join(', ')}`);
    }
  };
}

/**
 * Returns the error for a damaged manifest; the sentence says where and how.
 *
 * @param {string} sentence
 * @returns {MsdError}
 */
export function damaged(sentence) {
  return new MsdError('bad-manifest', `${sentence}; the page should be exported again`);
}

/**
 * Returns the parsed JSON of a file `name`; throws 'bad-manifest' for a text that is none, or has another
 * format.
 *
 * @param {string} json
 * @param {number} format
 * @param {string} name
 * @returns {unknown}
 */
export function parseFormat(json, format, name) {
  const found = parsed(json, name);
  check({ format: integer }, found, name);
  const version = /** @type {{ format: number }} */ (found).format;
  if (version === format) return found;
  const remedy = version > format ? 'reload the page' : 'the page should be exported again';
  const sentence = `${name} has format ${version} and this page reads ${format}; ${remedy}`;
  throw new MsdError('bad-manifest', sentence);
}

/**
 * @param {string} json
 * @param {string} name
 * @returns {unknown}
 */
function parsed(json, name) {
  try {
    return JSON.parse(json);
  } catch (problem) {
    throw new MsdError('bad-manifest', `${name} is not JSON; the page should be exported again`, problem);
  }
}

/**
 * @param {string} what
 * @param {(value: unknown) => boolean} fits
 * @returns {Check}
 */
function scalar(what, fits) {
  return (value, where) => {
    if (!fits(value)) throw damaged(`${where} is ${JSON.stringify(value) ?? 'missing'}, not ${what}`);
  };
}

/**
 * @param {{ [key: string]: Kind }} kinds
 * @param {unknown} value
 * @param {string} where
 */
function checkFields(kinds, value, where) {
  const object = objectOf(value, where);
  for (const [key, kind] of Object.entries(kinds)) check(kind, object[key], `${where}.${key}`);
}

/**
 * @param {unknown} value
 * @param {string} where
 * @returns {Record<string, unknown>}
 */
function objectOf(value, where) {
  const fits = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!fits) throw damaged(`${where} is no object`);
  return /** @type {Record<string, unknown>} */ (value);
}
