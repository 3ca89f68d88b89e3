import { Answer } from './answer.js';
import { Attempt, Interruption, pause } from './attempt.js';
import { MsdError, checkCancelled } from './errors.js';
import { sha256 } from './sha256.js';

const WHOLE = 200;
const PARTIAL = 206;
const RANGE_REFUSED = 416;
const UPLOAD = 'upload the whole export again';

/** @typedef {import('./storage.js').Part} Part */
/** @typedef {import('./manifest.js').WebFile} WebFile */

/**
 * How long to wait for a byte, and before the second try, in milliseconds; a pause is twice the one before.
 * After so many `tries` without a byte there is no other.
 *
 * @typedef {{ stall: number, pause: number, tries: number }} Patience
 */

/** @type {Patience} */
export const PATIENCE = { stall: 30_000, pause: 1000, tries: 5 };

/**
 * A file on its way from `url` into `part`.
 *
 * @typedef {object} Way
 * @property {WebFile} file
 * @property {string} url
 * @property {Part} part
 * @property {Patience} patience
 * @property {AbortSignal | undefined} signal
 * @property {() => void} onArrival  is called after each change of the part
 */

/**
 * Fetches what a part lacks and makes it a whole file, if its SHA-256 is right; else fetches all once more.
 *
 * @param {Way} way
 * @throws {MsdError} 'offline', 'damaged' if the server has other bytes, 'failed' if it has none, 'cancelled'
 */
export async function fetchFile(way) {
  const { file, part, url } = way;
  for (const tries of [2, 1]) {
    await fill(way);
    if ((await sha256(await part.read())) === file.sha256) return part.finish();
    await restart(way);
    if (tries === 1) throw damaged(`${url} has another SHA-256 than the manifest says`);
  }
}

/** @param {Way} way */
async function fill(way) {
  const { file, part, patience, signal } = way;
  let fruitless = 0;
  for (let most = part.size; part.size < file.bytes; most = Math.max(most, part.size)) {
    checkCancelled(signal);
    try {
      await request(way);
    } catch (problem) {
      if (!(problem instanceof Interruption)) throw problem;
      fruitless = part.size > most ? 0 : fruitless + 1;
      if (fruitless >= patience.tries) throw unreachable(way, problem);
      await pause(patience.pause * 2 ** Math.max(0, fruitless - 1), signal);
    }
  }
}

/** @param {Way} way */
async function request(way) {
  const attempt = new Attempt(way.signal, way.patience.stall);
  try {
    const options = { headers: headersFor(way), signal: attempt.signal };
    // What is kept here need not be in the browser's own cache, too.
    const response = await attempt.wait(() => fetch(way.url, { ...options, cache: 'no-store' }));
    const answer = new Answer(response);
    await prepare(way, answer);
    await take(way, attempt, response);
    if (way.part.size === way.file.bytes) return;
    // A page that asks to log in, for example, ends like a file, and is no beginning of one.
    if (answer.status === WHOLE && answer.length === undefined) await restart(way);
    throw new Interruption('the connection was cut');
  } finally {
    attempt.end();
  }
}

/**
 * @param {Way} way
 * @returns {Record<string, string>}
 */
function headersFor({ part, url }) {
  if (part.size === 0) return {};
  // Other servers would have to allow If-Range, and few do; the SHA-256 decides in any case.
  const known = new URL(url).origin === location.origin ? part.tag : undefined;
  return { Range: `bytes=${part.size}-`, ...(known && { 'If-Range': known }) };
}

/**
 * Makes the part ready for the bytes of an answer.
 *
 * @param {Way} way
 * @param {Answer} answer
 */
async function prepare(way, answer) {
  if (answer.status === WHOLE) {
    requireSize(way, answer.length);
    await restart(way, answer.tag);
  } else if (answer.status === PARTIAL) {
    await requireRest(way, answer);
  } else if (answer.status === RANGE_REFUSED) {
    await restart(way);
    throw new Interruption('it has no bytes where the last attempt ended');
  } else if (answer.isTemporary) {
    throw new Interruption(`it answers ${answer.status}`);
  } else {
    throw new MsdError('failed', `${way.url} answers ${answer.status}; ${UPLOAD}.`);
  }
}

/**
 * @param {Way} way
 * @param {Answer} answer
 */
async function requireRest(way, answer) {
  const { range } = answer;
  if (!range && !answer.isFromHere) return; // another server need not show it
  if (range) requireSize(way, range.total);
  if (range?.first === way.part.size) return;
  await restart(way);
  throw new Interruption('it sends other bytes than those asked for');
}

/**
 * @param {Way} way
 * @param {number | undefined} bytes
 */
function requireSize({ url, file }, bytes) {
  if (bytes === undefined || bytes === file.bytes) return;
  throw damaged(`${url} has ${bytes} bytes and the manifest says ${file.bytes}`);
}

/**
 * @param {Way} way
 * @param {Attempt} attempt
 * @param {Response} response
 */
async function take(way, attempt, response) {
  const { part, file, url } = way;
  const reader = response.body?.getReader();
  while (reader) {
    const { done, value } = await attempt.wait(() => reader.read());
    if (done) return;
    if (part.size + value.length > file.bytes) {
      await restart(way);
      throw damaged(`${url} does not end after the ${file.bytes} bytes of the manifest`);
    }
    await part.append(value);
    way.onArrival();
  }
}

/**
 * @param {Way} way
 * @param {string} [tag]
 */
async function restart(way, tag) {
  await way.part.restart(tag);
  way.onArrival();
}

/**
 * @param {Way} way
 * @param {Interruption} problem
 */
function unreachable({ url }, problem) {
  return new MsdError('offline', `${url} cannot be fetched: ${problem.message}.`, problem);
}

/** @param {string} what */
function damaged(what) {
  return new MsdError('damaged', `${what}; ${UPLOAD}.`);
}
