import { answer } from './calls.js';

const worker = new Worker('worker.js', { type: 'module' });
const waiting = new Map();
const results = new Map();
let last = 0;

worker.onmessage = ({ data }) => waiting.get(data.id)(data);

function post(request) {
  return new Promise((resolve) => {
    waiting.set(request.id, resolve);
    worker.postMessage(request);
  });
}

/** Begins a call in the worker or in this page, and returns its number. */
globalThis.begin = (where, call, args) => {
  const id = ++last;
  const request = { id, call, args };
  results.set(id, where === 'worker' ? post(request) : answer(request));
  return id;
};

globalThis.result = (id) => results.get(id);
