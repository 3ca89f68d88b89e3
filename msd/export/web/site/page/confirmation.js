import { find } from './element.js';

/**
 * Returns whether the user confirms, in a dialog.
 *
 * @param {string} title
 * @param {string} text what will be lost
 * @param {string} yes the word on the button
 * @returns {Promise<boolean>}
 */
export function confirmed(title, text, yes) {
  const dialog = find(HTMLDialogElement, 'dialog');
  find(HTMLElement, 'dialog-title').textContent = title;
  find(HTMLElement, 'dialog-text').textContent = text;
  find(HTMLButtonElement, 'dialog-yes').textContent = yes;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
