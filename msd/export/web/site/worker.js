/** Answers the page's questions (page/protocol.js) with the library, beside the page's own thread. */
import { MsdError } from './msd/errors.js';
import { openModel } from './msd/index.js';

/**
 * @typedef {import('./page/protocol.js').PictureRequest} PictureRequest
 * @typedef {import('./page/protocol.js').Progress} Progress
 * @typedef {import('./page/protocol.js').Question} Question
 * @typedef {{ signal: AbortSignal, onProgress: (progress: Progress) => void }} Options
 */

/** @type {Map<number, AbortController>} */
const running = new Map();
/** @type {ReturnType<typeof openModel> | null} */
let opened = null;

/** @type {Record<string, (args: any, options: Options) => Promise<unknown>>} */
const CALLS = {
  inspect: async () => (await model()).inspect(),
  fetch: async (_, options) => (await model()).fetch(options),
  generate,
  verdict: async (args, options) => (await model()).verdict({ ...args, ...options }),
  space: async () => (await model()).space(),
  remove: async () => (await model()).remove(),
};

addEventListener('message', ({ data }) => {
  if (data.call === 'cancel') running.get(data.args)?.abort();
  else void answer(data);
});

/** @param {Question} question */
async function answer({ id, call, args }) {
  const abort = new AbortController();
  running.set(id, abort);
  try {
    const options = { signal: abort.signal, onProgress: (/** @type {Progress} */ progress) => send({ id, progress }) };
    send({ id, result: await CALLS[call](args, options) });
  } catch (problem) {
    send({ id, error: errorOf(problem) });
  } finally {
    running.delete(id);
  }
}

/** Returns the model; one that could not be opened is tried again by the next question. */
async function model() {
  try {
    opened ??= openModel(new URL('./model/', import.meta.url));
    return await opened;
  } catch (problem) {
    opened = null;
    throw problem;
  }
}

/**
 * @param {PictureRequest} request
 * @param {Options} options
 */
async function generate(request, options) {
  const made = await (await model()).generate({ ...request, ...options });
  return { png: await made.png(), width: made.width, height: made.height, metadata: made.metadata };
}

/** @param {unknown} message */
function send(message) {
  self.postMessage(message);
}

/** @param {unknown} problem */
function errorOf(problem) {
  if (problem instanceof MsdError) return { code: problem.code, message: problem.message };
  return { code: 'failed', message: `Something unexpected went wrong: ${problem instanceof Error ? problem.message : problem}` };
}
