import { find } from './element.js';

const VIEWS = ['studio', 'verdict'];

/**
 * Has the tabs show their views; the arrow keys move between them. The address remembers which is shown.
 *
 * @param {(view: string) => void} onShow
 */
export function startTabs(onShow) {
  for (const [index, view] of VIEWS.entries()) {
    const tab = tabOf(view);
    tab.addEventListener('click', () => show(view, onShow));
    tab.addEventListener('keydown', ({ key }) => {
      if (key !== 'ArrowLeft' && key !== 'ArrowRight') return;
      const next = VIEWS[(index + 1) % VIEWS.length];
      show(next, onShow);
      tabOf(next).focus();
    });
  }
  const wanted = location.hash.slice(1);
  if (VIEWS.includes(wanted)) show(wanted, onShow);
}

/** @param {string} view */
function tabOf(view) {
  return find(HTMLButtonElement, `tab-${view}`);
}

/**
 * @param {string} shown
 * @param {(view: string) => void} onShow
 */
function show(shown, onShow) {
  for (const view of VIEWS) {
    find(HTMLElement, view).hidden = view !== shown;
    tabOf(view).setAttribute('aria-selected', String(view === shown));
    tabOf(view).tabIndex = view === shown ? 0 : -1;
  }
  history.replaceState(null, '', `#${shown}`);
  onShow(shown);
}
