/**
 * Generates images on the visitor's GPU, with a model that `msd export-web` wrote.
 *
 *     import { openModel } from './msd/index.js';
 *     const model = await openModel('model/');
 *     const picture = await model.generate({ prompt: 'two red circles', seed: 7 });
 *     const blob = await picture.png();
 *
 * It computes for seconds at a time: use it in a worker.
 */
export { MsdError } from './errors.js';
export { Model, openModel } from './model.js';
