import { SpecialTokens } from './special-tokens.js';

/** @typedef {import('./manifest.js').TokenizerFacts} TokenizerFacts */

const SPACES = /\p{White_Space}+/gu;
const WORDS =
  /<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\p{White_Space}\p{L}\p{N}]+/gu;
const MARKERS = ['<|startoftext|>', '<|endoftext|>'];
const ALPHABET = byteAlphabet();

/**
 * CLIP's byte-level BPE tokenizer: Radford et al., "Learning Transferable Visual Models From Natural Language
 * Supervision" (2021), section 2.4. Its ids are those of msd.run.runtime.tokenizer.
 */
export class Tokenizer {
  #ids;
  #tokens;
  #ranks;
  #facts;
  #early;
  #late;
  /** @type {Map<string, number[]>} */
  #words;

  /**
   * @param {string} tokensText tokens.txt, a token on the line of its id, empty where there is none
   * @param {string} mergesText merges.txt, the pairs that merge, "left right", the earliest first
   * @param {TokenizerFacts} facts
   */
  constructor(tokensText, mergesText, facts) {
    this.#ids = places(tokensText);
    this.#tokens = tokensText.split('\n');
    this.#ranks = places(mergesText);
    this.#facts = facts;
    this.#early = new SpecialTokens(facts.specials.filter(({ normalized }) => !normalized));
    this.#late = new SpecialTokens(facts.specials.filter(({ normalized }) => normalized));
    this.#words = new Map();
  }

  /** How many tokens there are. */
  get size() {
    return this.#ids.size;
  }

  /** How many ids fit between the start and the end token of a chunk. */
  get room() {
    return this.#facts.length - 2;
  }

  /**
   * Returns the ids of a text in exactly `chunks` chunks, each with a start and an end token, cut and padded.
   *
   * @param {string} text
   * @param {number} [chunks]
   * @returns {Int32Array<ArrayBuffer>[]} each of the length that the model takes
   */
  encode(text, chunks = 1) {
    const [inner, { room }] = [this.innerIds(text), this];
    return Array.from({ length: chunks }, (_, i) => this.#framed(inner.slice(i * room, (i + 1) * room)));
  }

  /**
   * Returns the ids of a text without start and end, not cut.
   *
   * @param {string} text
   * @returns {number[]}
   */
  innerIds(text) {
    return this.#early.cut(text, (piece) =>
      this.#late.cut(normalized(piece), (part) => words(part).flatMap((word) => this.#idsOfWord(word))),
    );
  }

  /**
   * Returns the words of a text, normalised, without special tokens.
   *
   * @param {string} text
   */
  wordsOf(text) {
    const parts = this.#early.between(text).flatMap((piece) => this.#late.between(normalized(piece)));
    return parts.flatMap(words);
  }

  /**
   * Returns the normalised text of ids, as far as they are whole characters. A token of several vectors is
   * written once, as in a prompt, and also where only its last ones are left.
   *
   * @param {number[]} ids
   */
  decode(ids) {
    const special = new Set(this.#facts.specials.flatMap(({ id, further }) => [id, ...further]));
    const bytes = this.#written(ids).flatMap((id) => {
      const [token, isSpecial] = [this.#tokens[id], special.has(id)];
      const word = token.replace(/<\/w>$/, '');
      const spelled = isSpecial ? bytesOf(word) : Array.from(word, (letter) => ALPHABET.indexOf(letter));
      return isSpecial || word !== token ? [...spelled, 0x20] : spelled;
    });
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return text.replace(/^ +| +$/g, '');
  }

  /**
   * Returns ids without those that follow from the ones before them.
   * @param {number[]} ids
   */
  #written(ids) {
    const vectors = this.#facts.specials.map(({ id, further }) => [id, ...further]);
    const pairs = vectors.flatMap((some) => some.slice(1).map((id, i) => [id, [some[0], some[i]]]));
    const further = new Map(/** @type {[number, number[]][]} */ (pairs));
    const kept = ids.filter((id, i) => i === 0 || further.get(id)?.[1] !== ids[i - 1]);
    return kept.map((id, i) => (i === 0 ? (further.get(id)?.[0] ?? id) : id));
  }

  /**
   * @param {number[]} inner
   */
  #framed(inner) {
    const { start, end, pad, length } = this.#facts;
    const ids = new Int32Array(length).fill(pad);
    ids.set([start, ...inner, end]);
    return ids;
  }

  /**
   * @param {string} word
   */
  #idsOfWord(word) {
    const known = this.#words.get(word);
    if (known) return known;
    const symbols = bytesOf(word).map((byte) => ALPHABET[byte]);
    symbols[symbols.length - 1] += '</w>';
    const ids = merged(symbols, this.#ranks).map((symbol) => this.#ids.get(symbol) ?? this.#facts.unknown);
    this.#words.set(word, ids);
    return ids;
  }
}

/**
 * Returns a text composed (NFC), each run of white space one blank, lower-cased letter by letter: a Greek
 * capital sigma becomes σ at the end of a word too.
 *
 * @param {string} text
 */
function normalized(text) {
  return Array.from(text.normalize('NFC').replace(SPACES, ' '), (letter) => letter.toLowerCase()).join('');
}

/**
 * Returns the words of normalised text: contractions, runs of letters, digits, runs of other characters.
 *
 * Markers spelled in capitals are no special tokens; the reference then cuts them a second time.
 *
 * @param {string} text
 */
function words(text) {
  const found = text.match(WORDS) ?? [];
  return found.flatMap((word) => (MARKERS.includes(word) ? ['<|', word.slice(2, -2), '|>'] : [word]));
}

/**
 * Returns symbols with neighbours merged, the pair of the lowest rank first, until no pair is known.
 *
 * @param {string[]} symbols
 * @param {Map<string, number>} ranks
 */
function merged(symbols, ranks) {
  for (;;) {
    const pairs = symbols.slice(1).map((right, i) => ranks.get(`${symbols[i]} ${right}`) ?? Infinity);
    const best = pairs.reduce((a, b) => Math.min(a, b), Infinity);
    if (best === Infinity) return symbols;
    symbols = mergedOnce(symbols, pairs, best);
  }
}

/**
 * @param {string[]} symbols
 * @param {number[]} pairs the rank of each symbol with the next one
 * @param {number} best
 */
function mergedOnce(symbols, pairs, best) {
  const made = [];
  for (let i = 0; i < symbols.length; i++) {
    const merges = pairs[i] === best;
    made.push(merges ? symbols[i] + symbols[i + 1] : symbols[i]);
    if (merges) i++;
  }
  return made;
}

/**
 * Returns the UTF-8 bytes of a text; those of half a surrogate pair too, which TextEncoder would replace.
 *
 * @param {string} text
 */
function bytesOf(text) {
  return Array.from(text).flatMap((letter) => {
    const code = /** @type {number} */ (letter.codePointAt(0));
    if (code < 0x80) return [code];
    if (code < 0x800) return [0xc0 | (code >> 6), tail(code, 0)];
    if (code < 0x10000) return [0xe0 | (code >> 12), tail(code, 6), tail(code, 0)];
    return [0xf0 | (code >> 18), tail(code, 12), tail(code, 6), tail(code, 0)];
  });
}

/**
 * @param {number} code
 * @param {number} shift
 */
function tail(code, shift) {
  return 0x80 | ((code >> shift) & 0x3f);
}

/**
 * Returns the number of each line that is not empty.
 *
 * @param {string} text
 */
function places(text) {
  const lines = /** @type {Map<string, number>} */ (new Map());
  text.split('\n').forEach((line, i) => line && lines.set(line, i));
  return lines;
}

/** Returns the printable letter that stands for each of the 256 bytes (GPT-2's `bytes_to_unicode`). */
function byteAlphabet() {
  let spare = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCharCode(plain ? byte : spare++);
  });
}
