/**
 * What LiteRT's native log says of a file that it compiled, as msd/runners/native_log.py reads it.
 *
 * LiteRT's own word for a whole file counts what its CPU delegate took, so only the log tells: where everything
 * is on the GPU, it has no list of refusals and no tally.
 *
 * @typedef {object} LiteRtLog
 * @property {number} onCpu operations that are not on the GPU
 * @property {string[]} refusals the kinds of operations that the GPU does not take, each with the reason
 */

const HEADING = 'Following operations are not supported by GPU delegate:';
const TALLY = /(?:\d+|No) operations will run on the GPU, and (?:the remaining|all) (\d+)/;
const REFUSAL = /^[A-Z][A-Z0-9_]*(?: [^:]+)?: ./;

/**
 * @param {string} text
 * @returns {LiteRtLog}
 */
export function readLiteRtLog(text) {
  const tally = TALLY.exec(text);
  return { onCpu: tally ? Number(tally[1]) : 0, refusals: refusalsOf(text.split('\n')) };
}

/** @param {string[]} lines */
function refusalsOf(lines) {
  const begin = lines.findIndex((line) => line.includes(HEADING));
  if (begin < 0) return [];
  const length = lines.slice(begin).findIndex((line) => TALLY.test(line));
  const within = lines.slice(begin + 1, length < 0 ? undefined : begin + length);
  return [...new Set(within.map((line) => line.trim()).filter((line) => REFUSAL.test(line)))];
}
