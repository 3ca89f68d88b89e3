/** @typedef {import('./manifest.js').SpecialToken} SpecialToken */

/**
 * Special tokens that are matched in the same stage: before the text is normalised, or after.
 */
export class SpecialTokens {
  #ids;
  #pattern;

  /** @param {SpecialToken[]} tokens */
  constructor(tokens) {
    const longestFirst = [...tokens].sort((a, b) => b.content.length - a.content.length);
    // The last of equal texts counts, as it does in Python.
    this.#ids = new Map(tokens.map(({ content, id, further }) => [content, [id, ...further]]));
    this.#pattern = new RegExp(longestFirst.map(({ content }) => escaped(content)).join('|') || '(?!)', 'gu');
  }

  /**
   * Returns the texts between the special tokens.
   *
   * @param {string} text
   */
  between(text) {
    return text.split(this.#pattern);
  }

  /**
   * Returns the ids of a text: those of the special tokens in it, and what `idsOf` returns for each text
   * between.
   *
   * @param {string} text
   * @param {(text: string) => number[]} idsOf
   * @returns {number[]}
   */
  cut(text, idsOf) {
    const ids = [];
    let at = 0;
    for (const { 0: found, index } of text.matchAll(this.#pattern)) {
      ids.push(idsOf(text.slice(at, index)), this.#ids.get(found) ?? []);
      at = index + found.length;
    }
    ids.push(idsOf(text.slice(at)));
    return ids.flat();
  }
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
