/**
 * Returns the texts of a picture's PNG: those that `msd generate` writes, as it writes them.
 *
 * @param {import('./manifest.js').AppManifest} app
 * @param {import('./pipeline.js').Request} request
 * @param {string} backend what ran the networks
 * @returns {Record<string, string>}
 */
export function metadataOf(app: import("./manifest.js").AppManifest, request: import("./pipeline.js").Request, backend: string): Record<string, string>;
