/**
 * Throws 'bad-manifest', with the place, unless `value` is what `kind` says; keys that it does not name may
 * be there.
 *
 * @param {Kind} kind
 * @param {unknown} value
 * @param {string} where
 */
export function check(kind: Kind, value: unknown, where: string): void;
/**
 * Returns the check of a value that may be null or missing.
 *
 * @param {Kind} kind
 * @returns {Check}
 */
export function nullable(kind: Kind): Check;
/**
 * Returns the check of a list of values of one kind.
 *
 * @param {Kind} kind
 * @returns {Check}
 */
export function list(kind: Kind): Check;
/**
 * Returns the check of an object of any keys, with values of one kind.
 *
 * @param {Kind} kind
 * @returns {Check}
 */
export function record(kind: Kind): Check;
/**
 * Returns the check of a text that is one of `choices`.
 *
 * @param {readonly string[]} choices
 * @returns {Check}
 */
export function oneOf(choices: readonly string[]): Check;
/**
 * Returns the error for a damaged manifest; the sentence says where and how.
 *
 * @param {string} sentence
 * @returns {MsdError}
 */
export function damaged(sentence: string): MsdError;
/**
 * Returns the parsed JSON of a file `name`; throws 'bad-manifest' for a text that is none, or has another
 * format.
 *
 * @param {string} json
 * @param {number} format
 * @param {string} name
 * @returns {unknown}
 */
export function parseFormat(json: string, format: number, name: string): unknown;
/**
 * What a value of parsed JSON should be: an object of kinds, or a function that throws unless it is.
 *
 * @typedef {{ [key: string]: Kind } | Check} Kind
 * @typedef {(value: unknown, where: string) => void} Check
 */
export const text: Check;
export const integer: Check;
export const number: Check;
export const boolean: Check;
/**
 * What a value of parsed JSON should be: an object of kinds, or a function that throws unless it is.
 */
export type Kind = {
    [key: string]: Kind;
} | Check;
/**
 * What a value of parsed JSON should be: an object of kinds, or a function that throws unless it is.
 */
export type Check = (value: unknown, where: string) => void;
import { MsdError } from './errors.js';
