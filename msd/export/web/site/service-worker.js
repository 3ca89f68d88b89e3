/**
 * Keeps the page's own files, which shell.json lists, so that it opens without a network.
 *
 * A worker serves one version of them, which its address names (page/offline.js): it is installed once its
 * cache holds every file with the SHA-256 of the list, and takes over when no page of the version before is
 * open. The model's weights are not its business: msd/store.js keeps these.
 */

/**
 * shell.json: SHA-256 by path. `files` are kept at once, `later` ones when they were used.
 *
 * @typedef {{ version: string, files: Record<string, string>, later: Record<string, string> }} Shell
 */

const TAKE_OVER = 'take over';
const ASK = 'may the newer one take over?';

/**
 * What a visit gets while a newer worker takes over. It asks whether it is the only page, which the worker
 * cannot know of a page that is about to be opened, and then for the page itself, once: asked for again and
 * again, as by a Refresh header, Chromium 156 sometimes never shows it on a busy machine.
 */
const TAKING_OVER = `<!doctype html><script>
  const { serviceWorker } = navigator;
  serviceWorker.addEventListener('controllerchange', () => location.reload());
  serviceWorker.onmessage = async ({ data }) => {
    const waiting = data && (await serviceWorker.getRegistration())?.waiting;
    if (waiting) waiting.postMessage('${TAKE_OVER}');
    else location.reload();
  };
  serviceWorker.controller.postMessage('${ASK}');
</script>`;
const HTML = { 'Content-Type': 'text/html' };

const worker = /** @type {any} */ (self);
/** @type {string} */
const SCOPE = worker.registration.scope;
const PREFIX = `msd-shell ${SCOPE} `;
const VERSION = worker.location.search.slice(1);
const LIST = addressOf('shell.json');

worker.addEventListener('install', (/** @type {any} */ event) => event.waitUntil(install()));
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(deleteOthers()));
worker.addEventListener('message', (/** @type {MessageEvent} */ event) => {
  if (event.data === TAKE_OVER) worker.skipWaiting();
  if (event.data === ASK) /** @type {any} */ (event).waitUntil(tellIfAlone(event));
});
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  if (isOurs(event.request)) event.respondWith(answer(event.request));
});

async function install() {
  const list = await fetch(LIST, { cache: 'no-store' });
  /** @type {Shell} */
  const { version, files } = await list.clone().json();
  if (version !== VERSION) throw new Error(`the server has version ${version} and not ${VERSION}`);
  const cache = await caches.open(PREFIX + VERSION);
  await Promise.all(Object.entries(files).map(([name, hash]) => keep(cache, addressOf(name), hash)));
  await cache.put(LIST, list);
}

async function deleteOthers() {
  const others = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== PREFIX + VERSION);
  await Promise.all(others.map((name) => caches.delete(name)));
}

/**
 * The store's requests bypass caches, and so they do this one.
 *
 * @param {Request} request
 */
function isOurs(request) {
  const isCacheable = request.method === 'GET' && request.cache !== 'no-store';
  return isCacheable && request.url.startsWith(SCOPE) && !request.headers.has('Range');
}

/**
 * @param {Request} request
 * @returns {Promise<Response>}
 */
async function answer(request) {
  const isVisit = request.mode === 'navigate';
  if (isVisit && (await makesWay())) return new Response(TAKING_OVER, { headers: HTML });
  const cache = await caches.open(PREFIX + VERSION);
  const address = request.url.replace(/[?#].*/s, '');
  const kept = await cache.match(address === SCOPE ? addressOf('index.html') : address, { ignoreVary: true });
  return kept ?? (await answerLater(cache, address)) ?? fetch(request);
}

/**
 * Returns whether a newer worker waits, and at most one page is open: the one that is being left, or that
 * asks. No worker serves a page that was opened before the first one was there, and it counts too.
 */
async function makesWay() {
  if (!worker.registration.waiting) return false;
  return (await worker.clients.matchAll({ type: 'window', includeUncontrolled: true })).length <= 1;
}

/** @param {MessageEvent} event */
async function tellIfAlone(event) {
  /** @type {any} */ (event.source).postMessage(await makesWay());
}

/**
 * @param {Cache} cache
 * @param {string} address
 * @returns {Promise<Response | undefined>}
 */
async function answerLater(cache, address) {
  /** @type {Shell | undefined} */
  const shell = await (await cache.match(LIST))?.json();
  const found = Object.entries(shell?.later ?? {}).find(([name]) => addressOf(name) === address);
  if (!found) return undefined;
  await keep(cache, address, found[1]);
  return cache.match(address);
}

/**
 * Puts a file of the server into the cache, unless it is there; throws where it is another version's.
 *
 * @param {Cache} cache
 * @param {string} address
 * @param {string} hash
 */
async function keep(cache, address, hash) {
  if (await cache.match(address)) return;
  const response = await fetch(address, { cache: 'no-cache' });
  const bytes = await response.arrayBuffer();
  const isListed = response.ok && (await sha256(bytes)) === hash;
  if (!isListed) throw new Error(`${address} is not the one that shell.json lists`);
  await cache.put(address, new Response(bytes, { headers: response.headers }));
}

/** @param {string} name */
function addressOf(name) {
  return new URL(name.split('/').map(encodeURIComponent).join('/'), SCOPE).href;
}

/**
 * As msd/sha256.js; a worker of this kind that imports modules is not in every browser.
 *
 * @param {ArrayBuffer} bytes
 */
async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
