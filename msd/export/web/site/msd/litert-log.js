/**
 * What LiteRT's native log says of a file that it compiled, as msd/run/runners/native_log.py reads it.
 *
 * LiteRT's own word for a whole file counts what its CPU delegate took, so only the log tells: where
 * everything is on the GPU, it has no list of refusals and no tally.
 *
 * @typedef {object} LiteRtLog
 * @property {boolean} whole whether nothing in it speaks against all operations being on the GPU
 * @property {string[]} refusals the kinds of operations that the GPU does not take, each with the reason
 * @property {string[]} errors other lines about what went wrong
 */

const HEADING = 'Following operations are not supported by GPU delegate:';
const TALLY = /(?:\d+|No) operations will run on the GPU, and (?:the remaining|all) \d+/;
const RESTORED = 'Restored original execution plan after delegate application failure';
const ERROR = /^ERROR: (?:\[[^\]]*\] )?(.+)/;
const REFUSAL = /^[A-Z][A-Z0-9_]*(?: [^:]+)?: ./;

/**
 * @param {string} text
 * @returns {LiteRtLog}
 */
export function readLiteRtLog(text) {
  const whole = !TALLY.test(text) && !text.includes(RESTORED);
  const lines = text.split('\n');
  const errors = lines.flatMap((line) => ERROR.exec(line)?.[1] ?? []).filter((words) => words !== HEADING);
  return { whole, refusals: refusalsOf(lines), errors };
}

/**
 * Returns the lines between heading and tally; one without a kind of operation continues the last.
 *
 * @param {string[]} lines
 */
function refusalsOf(lines) {
  /** @type {string[]} */
  const refusals = [];
  let inside = false;
  for (const line of lines) {
    const headed = line.includes(HEADING);
    inside = headed || (inside && !TALLY.test(line));
    if (!inside || headed) continue;
    if (REFUSAL.test(line) || !refusals.length) refusals.push(line);
    else refusals.push(`${refusals.pop()} ${line.trim()}`);
  }
  return [...new Set(refusals)];
}
