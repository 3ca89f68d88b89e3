/**
 * Keeps a JSON value in this browser, so that a reload loses nothing; a browser may keep nothing.
 *
 * @param {string} key
 * @param {unknown} value
 */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // A browser may refuse: private windows, blocked storage. The page works without.
  }
}

/**
 * Returns the value that was kept, or null.
 *
 * @param {string} key
 * @returns {any}
 */
export function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null');
  } catch {
    return null;
  }
}
