import { find } from './element.js';
import { keepOffline } from './offline.js';
import { Studio } from './studio.js';
import { startTabs } from './tabs.js';
import { WorkerClient } from './worker-client.js';

const studio = new Studio(new WorkerClient(new URL('../worker.js', import.meta.url)));

/** What measures is fetched only for those who look at it. */
async function openVerdict() {
  const { VerdictView } = await import('./verdict-view.js');
  const view = new VerdictView(studio.work);
  const { allowed, why } = studio.readiness;
  view.allow(allowed, why);
  studio.onChange = (nowAllowed, nowWhy) => view.allow(nowAllowed, nowWhy);
}

/** @type {Promise<void> | null} */
let verdict = null;

document.addEventListener('keydown', (event) => {
  if (find(HTMLDialogElement, 'dialog').open) return;
  if (event.key === 'Escape') studio.work.cancel();
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) studio.submit();
});

startTabs((view) => {
  if (view === 'verdict') verdict ??= openVerdict();
});
find(HTMLButtonElement, 'load-newer').addEventListener('click', () => location.reload());
// A browser may refuse, in private windows for example; the page works without.
keepOffline(() => {
  find(HTMLElement, 'newer').hidden = false;
}).catch(() => {});
await studio.start();
