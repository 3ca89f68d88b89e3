import { answer } from './calls.js';

onmessage = async ({ data }) => postMessage(await answer(data));
