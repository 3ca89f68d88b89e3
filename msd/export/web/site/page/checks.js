import { BROWSERS } from '../msd/browsers.js';
import { size } from './quantity.js';

/**
 * @typedef {import('./protocol.js').Inspection} Inspection
 * @typedef {{ holds: 'yes' | 'perhaps' | 'no', sentence: string }} Check
 */

const GIB = 2 ** 30;

/**
 * Returns what this device has of what the model needs: of its GPU, memory and storage.
 *
 * @param {Inspection} inspection
 * @param {number | undefined} deviceMemory GiB that the browser says the device has, rounded and capped
 * @returns {Check[]}
 */
export function checks(inspection, deviceMemory) {
  return [
    ...gpuChecks(inspection),
    ...memoryCheck(inspection.memory, deviceMemory),
    ...storageCheck(inspection),
  ];
}

/**
 * Returns the bytes that have to be fetched.
 *
 * @param {Inspection} inspection
 */
export function missing({ bytes }) {
  return bytes.total - bytes.there;
}

/**
 * @param {Inspection} inspection
 * @returns {Check[]}
 */
function gpuChecks({ gpu }) {
  if (gpu.problems.length) return gpuProblems(gpu.problems);
  if (gpu.precision === 'fp16')
    return [{ holds: 'yes', sentence: `WebGPU works here, in float16: ${gpu.name}.` }];
  return [{ holds: 'perhaps', sentence: `WebGPU works here, in float32: ${gpu.name}.` }];
}

/**
 * @param {string[]} problems
 * @returns {Check[]}
 */
function gpuProblems(problems) {
  const named = problems.some((sentence) => sentence.includes('Safari'));
  /** @type {Check[]} */
  const browsers = named ? [] : [{ holds: 'perhaps', sentence: BROWSERS }];
  return [...problems.map((sentence) => /** @type {Check} */ ({ holds: 'no', sentence })), ...browsers];
}

/**
 * @param {number} needed
 * @param {number | undefined} deviceMemory
 * @returns {Check[]}
 */
function memoryCheck(needed, deviceMemory) {
  if (!needed) return [];
  const opening = `Generating takes up to ${size(needed)} of memory`;
  if (!deviceMemory)
    return [{ holds: 'perhaps', sentence: `${opening}; this browser does not say how much there is.` }];
  if (deviceMemory * GIB > needed)
    return [{ holds: 'yes', sentence: `${opening}, and this device has ${deviceMemory} GB or more.` }];
  return [
    {
      holds: 'perhaps',
      sentence: `${opening}, and this device says that it has ${deviceMemory} GB. It may not get through.`,
    },
  ];
}

/**
 * @param {Inspection} inspection
 * @returns {Check[]}
 */
function storageCheck(inspection) {
  const [needed, free] = [missing(inspection), inspection.space.available];
  if (!needed) return [];
  if (free === undefined)
    return [
      {
        holds: 'perhaps',
        sentence: `The model needs ${size(needed)} of storage; this browser does not say how much is free.`,
      },
    ];
  if (free >= needed)
    return [{ holds: 'yes', sentence: `There is room for the model: ${size(free)} are free.` }];
  const fault = `The model needs ${size(needed)} of storage, and this browser may use ${size(free)}`;
  return [{ holds: 'no', sentence: `${fault}. Make room on this device.` }];
}
