/**
 * What LiteRT's native log says of a file that it compiled, as msd/runners/native_log.py reads it.
 *
 * @typedef {object} LiteRtLog
 * @property {number | null} delegated the operations on the GPU, null where it does not say
 * @property {number | null} partitions
 * @property {string[]} refusals the kinds of operations that the GPU does not take, each with the reason
 */

const REPLACING =
  /Replacing (\d+) out of (\d+) node\(s\) with delegate \((\w+)\) node, yielding (\d+) partitions/g;
const HEADING = 'Following operations are not supported by GPU delegate:';
const TALLY = /(\d+|No) operations will run on the GPU, and (?:the remaining|all) (\d+)/;
const REFUSAL = /^[A-Z][A-Z0-9_]*(?: [^:]+)?: ./;
const CPU = ['TfLiteXNNPackDelegate', 'YNNPackDelegate'];

/**
 * @param {string} text
 * @returns {LiteRtLog}
 */
export function readLiteRtLog(text) {
  const replaced = [...text.matchAll(REPLACING)].filter(([, , , delegate]) => !CPU.includes(delegate));
  const tally = TALLY.exec(text);
  const known = replaced.length > 0;
  const counted = tally ? Number(tally[1] === 'No' ? 0 : tally[1]) : null;
  return {
    delegated: known ? sum(replaced.map(([, delegated]) => Number(delegated))) : counted,
    partitions: known ? sum(replaced.map(([, , , , partitions]) => Number(partitions))) : null,
    refusals: refusalsOf(text.split('\n')),
  };
}

/** @param {string[]} lines */
function refusalsOf(lines) {
  const begin = lines.findIndex((line) => line.includes(HEADING));
  if (begin < 0) return [];
  const length = lines.slice(begin).findIndex((line) => TALLY.test(line));
  const within = lines.slice(begin + 1, length < 0 ? undefined : begin + length);
  return [...new Set(within.map((line) => line.trim()).filter((line) => REFUSAL.test(line)))];
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
