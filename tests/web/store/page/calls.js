import { sha256 } from './msd/sha256.js';
import { openStore } from './msd/store.js';

const NAME = 'tested';
/** A server is silent for as long as a slow machine needs to arrange a test. */
const PATIENCE = { stall: 120_000, pause: 10, tries: 3 };
const stops = new Map();
const tested = openStore(NAME, PATIENCE);

let seen = 0;
const { read } = ReadableStreamDefaultReader.prototype;
ReadableStreamDefaultReader.prototype.read = async function count() {
  const got = await read.call(this);
  seen += got.value?.length ?? 0;
  return got;
};

const CALLS = {
  async fetch(id, files, patience, base = location.href) {
    const stop = new AbortController();
    stops.set(id, stop);
    const told = [];
    const onProgress = (bytes, total) => told.push([bytes, total]);
    const fetching = patience ? await openStore(NAME, { ...PATIENCE, ...patience }) : await tested;
    await fetching.fetch(files, new URL('model/', base), { signal: stop.signal, onProgress });
    return told;
  },
  /** Fetches, and cancels as soon as so many calls of onProgress have come. */
  async fetchUntilTold(id, files, times) {
    const stop = new AbortController();
    const onProgress = () => --times === 0 && stop.abort();
    await (await tested).fetch(files, new URL('model/', location.href), { signal: stop.signal, onProgress });
  },
  async cancel(id, other) {
    stops.get(other).abort();
  },
  /** How many bytes of answers were read. */
  async seen() {
    return seen;
  },
  async read(id, file) {
    return sha256(await (await tested).read(file));
  },
  async missing(id, files) {
    return (await (await tested).missing(files)).map(({ file }) => file);
  },
  async arrived(id, files) {
    return (await tested).arrived(files);
  },
  async space() {
    return (await tested).space();
  },
  async prune(id, files) {
    await (await tested).prune(files);
  },
  async remove() {
    await (await tested).remove();
  },
  /** Flips a bit of a whole file behind the store's back. */
  async damage(id, { sha256: name }) {
    if (!('createSyncAccessHandle' in FileSystemFileHandle.prototype)) return damageCache(name);
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(`msd-store-${NAME}`);
    const access = await (await folder.getFileHandle(name)).createSyncAccessHandle();
    const byte = new Uint8Array(1);
    access.read(byte, { at: 7 });
    access.write(new Uint8Array([byte[0] ^ 1]), { at: 7 });
    access.close();
  },
  /** Writes a file of OPFS, behind the store's back. */
  async plant(id, name, bytes) {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(`msd-store-${NAME}`);
    const access = await (await folder.getFileHandle(name, { create: true })).createSyncAccessHandle();
    access.truncate(0);
    access.write(Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0)), { at: 0 });
    access.close();
  },
  /** The names of all that the store has in OPFS. */
  async names() {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(`msd-store-${NAME}`);
    return (await Array.fromAsync(folder.keys())).sort();
  },
};

async function damageCache(name) {
  const cache = await caches.open(`msd-store-${NAME}`);
  const key = (await cache.keys()).find(({ url }) => url.includes(`${name}/piece/0/`));
  const bytes = new Uint8Array(await (await cache.match(key)).arrayBuffer());
  bytes[7] ^= 1;
  await cache.put(key, new Response(bytes));
}

/** Returns `{ id, result }`, or `{ id, error }` where the call threw. */
export async function answer({ id, call, args }) {
  try {
    return { id, result: (await CALLS[call](id, ...args)) ?? null };
  } catch ({ code, message, name }) {
    return { id, error: { code: code ?? name, message } };
  }
}
