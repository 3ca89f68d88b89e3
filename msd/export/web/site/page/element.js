/**
 * Returns the element of the page with an id; throws TypeError where it is missing or of another class.
 *
 * @template {HTMLElement} T
 * @param {new () => T} kind
 * @param {string} id
 * @returns {T}
 */
export function find(kind, id) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`The page has no ${kind.name} with the id ${id}.`);
  return found;
}

/**
 * Returns a new element with properties and children; text becomes text, never markup.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Partial<HTMLElementTagNameMap[K]>} [properties]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function create(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/**
 * Returns a new button that calls `action`.
 *
 * @param {string} text
 * @param {() => void} action
 * @param {string} [className]
 * @returns {HTMLButtonElement}
 */
export function button(text, action, className = '') {
  const made = create('button', { type: 'button', textContent: text, className });
  made.addEventListener('click', action);
  return made;
}

/**
 * Has a screen reader say a sentence when it has finished what it says.
 *
 * @param {string} sentence
 */
export function announce(sentence) {
  find(HTMLElement, 'announcer').textContent = sentence;
}
