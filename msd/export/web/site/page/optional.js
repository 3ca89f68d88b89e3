import { megabytes } from './quantity.js';

/**
 * The networks that are fetched when a picture needs them, by their roles.
 *
 * @typedef {import('./protocol.js').Inspection['optional']} Optional
 */

/**
 * Returns why this device cannot run an optional network; empty where it can.
 *
 * @param {Optional} optional
 * @param {string} role
 */
export function obstacleOf(optional, role) {
  return optional[role]?.problems[0] ?? '';
}

/**
 * Returns what the first picture with an optional network fetches, a sentence; empty where all is there.
 *
 * @param {Optional} optional
 * @param {string} role
 */
export function costOf(optional, role) {
  const { total = 0, there = 0 } = optional[role]?.bytes ?? {};
  return total > there ? `The first such picture fetches ${megabytes(total - there)} MB more.` : '';
}
