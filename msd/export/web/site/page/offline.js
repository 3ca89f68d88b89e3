/**
 * Makes the page open without a network from its next visit on (service-worker.js), and brings a newer
 * version of it, which the next visit shows. Does nothing where the browser cannot, or without a network.
 *
 * @param {() => void} [onNewer]  is called when a newer version than the one shown is there
 * @returns {Promise<void>}
 */
export async function keepOffline(onNewer) {
  const version = 'serviceWorker' in navigator ? await versionOfServer() : undefined;
  if (version === undefined) return;
  const address = new URL(`../service-worker.js?${version}`, import.meta.url);
  const registration = await navigator.serviceWorker.register(address, { updateViaCache: 'none' });
  const worker = registration.installing ?? registration.waiting;
  if (!worker || !registration.active || !onNewer) return;
  const tell = () => { if (worker.state === 'installed') onNewer(); };
  worker.addEventListener('statechange', tell);
  tell();
}

/** @returns {Promise<string | undefined>} */
async function versionOfServer() {
  try {
    const response = await fetch(new URL('../shell.json', import.meta.url), { cache: 'no-store' });
    return response.ok ? (await response.json()).version : undefined;
  } catch {
    return undefined;
  }
}
