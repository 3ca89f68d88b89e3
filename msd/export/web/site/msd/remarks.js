/**
 * What of a request is not used as its writer may have meant it: the sentences of msd/run/runtime/remarks.py,
 * whose places of other programs' syntax these are too.
 */

/**
 * @typedef {import('./guidance.js').Guidance} Guidance
 * @typedef {import('./tokenizer.js').Tokenizer} Tokenizer
 * @typedef {{ prompt: string, negativePrompt?: string }} Texts
 */

/** Tokens; a smaller vocabulary is that of a model that knows few words. */
const SMALL = 10_000;
/** Of the words or brackets of one kind, in a sentence. */
const MOST_QUOTED = 3;

const NUMBER =
  /^[\t-\r\x85\p{Z}]*[+-]?(?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)[\t-\r\x85\p{Z}]*$/u;
const SQUARE = /\[([^[\]]*)\]/gu;
const STEADY = 'words do not change from step to step';
const CHANCE = 'nothing is chosen at random';
const WEIGHTS = 'msd generate --prompt-syntax weights reads weights';

/**
 * Other programs' syntax, text here: what finds it, what to do instead or is not done, and whether it is
 * meant, by what a bracket holds.
 *
 * @type {[RegExp, string, ((inside: string) => boolean)?][]}
 */
const FOREIGN = [
  [/<(?:lora|lyco):[^<>]*>/gu, 'msd-convert --lora merges a LoRA into the weights'],
  [/<hypernet:[^<>]*>/gu, 'hypernetworks are not supported'],
  [
    /(?<![\p{L}\p{N}_])embedding:[^\t-\r\x85\p{Z}]+/gu,
    'msd-convert --embedding adds a token, whose name alone stands for it',
  ],
  [
    /(?<![\p{L}\p{N}_])BREAK(?![\p{L}\p{N}_])/gu,
    'long prompts are cut every 75 tokens (msd-convert --prompt-chunks)',
  ],
  [/(?<![\p{L}\p{N}_])AND(?![\p{L}\p{N}_])/gu, 'prompts are not combined'],
  [SQUARE, STEADY, hasNumber],
  [SQUARE, STEADY, hasChoice],
  [/\{([^{}]*)\}/gu, CHANCE, hasChoice],
  [/__[\p{L}\p{N}_/-]+?__/gu, CHANCE],
  [
    /(?<![\p{L}\p{N}_])[\p{L}\p{N}_]{2,}\+{2,}(?![^\t-\r\x85\p{Z},.)])|\([^()]*\)(?:\++|[0-9]*\.[0-9]+)/gu,
    `(word:1.2) has a weight; ${WEIGHTS}`,
  ],
  [/\(([^()]*)\)/gu, WEIGHTS, hasNumber],
  [/\(\([^()]*\)\)|\[\[[^[\]]*\]\]/gu, WEIGHTS],
  [/\\[()[\]]/gu, `backslashes too; ${WEIGHTS}`],
];

/**
 * Returns what is not used of a request, or not as it may be meant, each sentence once.
 *
 * @param {Texts} request
 * @param {Guidance} guidance that of the request
 * @param {Tokenizer} tokenizer
 * @param {number} chunks of a prompt
 * @returns {string[]}
 */
export function requestRemarks({ prompt, negativePrompt = '' }, guidance, tokenizer, chunks) {
  const remarks = ofGuidance(negativePrompt, guidance);
  if (!/[^\t-\r\x85\p{Z}]/u.test(prompt)) {
    remarks.push('the prompt is empty, so that nothing says what the image should show');
  }
  for (const text of guidance.prompts(prompt, negativePrompt)) {
    remarks.push(...ofText(text, tokenizer, chunks));
  }
  return [...new Set(remarks)];
}

/**
 * @param {string} negativePrompt
 * @param {Guidance} guidance
 */
function ofGuidance(negativePrompt, { mode, rows, scale }) {
  const remarks = [];
  if (negativePrompt && rows === 1) {
    const embedded = mode === 'embedding';
    const why = embedded ? 'this U-Net has its guidance built in' : 'guidance of 1 or less needs none';
    remarks.push(`the negative prompt is not used: ${why}`);
  }
  if (mode === 'none' && scale !== 0 && scale !== 1) {
    remarks.push(`guidance ${Number(scale.toPrecision(6))} is used as 1, which is none`);
  }
  return remarks;
}

/**
 * @param {string} text
 * @param {Tokenizer} tokenizer
 * @param {number} chunks
 */
function ofText(text, tokenizer, chunks) {
  const foreign = foreignPlaces(text);
  const remarks = [...foreign].map(([instead, found]) => `read as text: ${quoted(found)}; ${instead}`);
  const places = [...new Set([...foreign.values()].flat())];
  const rest = places.reduce((left, place) => left.replaceAll(place, ' '), text);
  const unknown = tokenizer.size < SMALL ? spelledWords(rest, tokenizer) : [];
  if (unknown.length) {
    const vocabulary = `the vocabulary of ${tokenizer.size} tokens`;
    remarks.push(`${vocabulary} has only pieces of these words: ${quoted(unknown)}`);
  }
  const room = chunks * tokenizer.room;
  const cut = tokenizer.decode(tokenizer.innerIds(text).slice(room));
  return cut ? [...remarks, `a prompt has room for ${room} tokens, and this was cut: ${cut}`] : remarks;
}

/**
 * Returns the places in a prompt that are other programs' syntax, by what to do instead.
 *
 * @param {string} text
 */
function foreignPlaces(text) {
  const places = /** @type {Map<string, string[]>} */ (new Map());
  for (const [pattern, instead, isMeant] of FOREIGN) {
    const found = [...text.matchAll(pattern)].filter(([, inside]) => !isMeant || isMeant(inside));
    if (found.length) places.set(instead, [...(places.get(instead) ?? []), ...found.map(([place]) => place)]);
  }
  return places;
}

/**
 * Returns the words that a vocabulary has only in pieces.
 *
 * @param {string} text
 * @param {Tokenizer} tokenizer
 */
function spelledWords(text, tokenizer) {
  const words = tokenizer.wordsOf(text).filter((word) => /^\p{L}{2,}$/u.test(word));
  return words.filter((word) => tokenizer.innerIds(word).length > 1);
}

/**
 * Whether the inside of a bracket ends in a number after a colon.
 *
 * @param {string} inside
 */
function hasNumber(inside) {
  const colon = inside.lastIndexOf(':');
  return colon >= 0 && NUMBER.test(inside.slice(colon + 1));
}

/**
 * Whether the inside of a bracket names alternatives.
 *
 * @param {string} inside
 */
function hasChoice(inside) {
  return inside.includes('|');
}

/**
 * Returns up to `MOST_QUOTED` texts, each once, and the number of the others.
 *
 * @param {string[]} found
 */
function quoted(found) {
  const distinct = [...new Set(found)];
  const more = distinct.length - MOST_QUOTED;
  return distinct.slice(0, MOST_QUOTED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
