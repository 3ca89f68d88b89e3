/**
 * Throws 'bad-request' for what no model can do: a seed, guidance or a prompt beyond the bounds, or a number
 * of steps between previews that is none.
 *
 * @param {Request} request
 */
export function checkRequest({ prompt, negativePrompt, seed, guidance, previewEvery }: Request): void;
export type Request = import("./pipeline.js").Request;
