import { BROWSERS } from '../msd/browsers.js';

/** @typedef {import('../msd/errors.js').Code} Code */

/**
 * What a button after an error does: the same again, fetching what is missing, making room,
 * or loading the page anew.
 *
 * @typedef {'again' | 'fetch' | 'room' | 'reload'} Way
 * @typedef {{ title: string, sentences: string[], ways: [Way, string][] }} Advice
 */

/** @type {[Way, string]} */
const AGAIN = ['again', 'Try again'];
/** @type {[Way, string]} */
const RELOAD = ['reload', 'Load the page anew'];

/** @type {Record<Code, Advice>} */
const ADVICE = {
  'no-webgpu': { title: 'This browser has no WebGPU', sentences: [BROWSERS], ways: [RELOAD] },
  'too-small': {
    title: 'This GPU is too small for the model',
    sentences: ['A device with a larger GPU can open the same page.'],
    ways: [AGAIN],
  },
  'device-lost': {
    title: 'The GPU was lost',
    sentences: [
      'Another app may have needed it, or the driver began anew. Your settings and pictures are kept.',
    ],
    ways: [AGAIN, RELOAD],
  },
  'out-of-memory': {
    title: 'The GPU ran out of memory',
    sentences: ['Close other tabs and apps, then try again. Your settings and pictures are kept.'],
    ways: [AGAIN, RELOAD],
  },
  damaged: {
    title: 'A piece of the model is damaged',
    sentences: ['Only what is damaged or missing is fetched.'],
    ways: [['fetch', 'Fetch it again']],
  },
  offline: {
    title: 'The server cannot be reached',
    sentences: ['What has been fetched is kept, and the rest follows when you try again.'],
    ways: [AGAIN],
  },
  'storage-full': {
    title: 'There is too little room',
    sentences: [
      'What has been fetched is kept. Delete earlier pictures or other files on this device, then try again.',
    ],
    ways: [AGAIN, ['room', 'Make room']],
  },
  cancelled: { title: 'It was cancelled', sentences: [], ways: [AGAIN] },
  'bad-request': {
    title: 'This model cannot do that',
    sentences: ['Change the settings and generate again.'],
    ways: [],
  },
  'bad-manifest': {
    title: 'This page and its model do not fit together',
    sentences: ['Whoever runs this site can export it again with msd export-web.'],
    ways: [RELOAD],
  },
  failed: {
    title: 'Something went wrong',
    sentences: ['Your settings and pictures are kept.'],
    ways: [AGAIN, RELOAD],
  },
};

/**
 * Returns what to say of an error besides its own sentence, and the ways on.
 *
 * @param {Code} code
 * @returns {Advice}
 */
export function adviceFor(code) {
  return ADVICE[code] ?? ADVICE.failed;
}
