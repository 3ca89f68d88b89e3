import { keepOffline } from './offline.js';
import { word } from './word.js';

const style = getComputedStyle(document.documentElement).getPropertyValue('--word').trim();
const tokens = await (await fetch('model/tokens.txt')).text();
globalThis.newer = 0;
globalThis.words = `${word} ${style} ${tokens.trim()}`;
keepOffline(() => globalThis.newer++).then(() => (globalThis.kept = true), (error) => (globalThis.kept = `${error}`));
