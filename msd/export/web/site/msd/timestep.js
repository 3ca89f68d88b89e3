/**
 * @typedef {import('./manifest.js').AppManifest} AppManifest
 * @typedef {import('./manifest.js').Sinusoids} Sinusoids
 * @typedef {import('./manifest.js').Step} Step
 */

/**
 * Returns what the U-Net takes for a number `t`: float32 sinusoids, half of them cosines, half sines.
 *
 * Ho et al., "Denoising Diffusion Probabilistic Models" (2020). The angle is rounded to float32, as where the
 * network was trained; its cosine is taken in float64.
 *
 * @param {Sinusoids} sinusoids
 * @param {number} t
 * @returns {Float32Array<ArrayBuffer>}
 */
export function embed(sinusoids, t) {
  const f32 = Math.fround;
  const angles = sinusoids.frequencies.map((frequency) => f32(f32(t) * f32(frequency)));
  const [cosines, sines] = [angles.map(Math.cos), angles.map(Math.sin)];
  const embedding = new Float32Array(sinusoids.width);
  embedding.set(sinusoids.cosine_first ? [...cosines, ...sines] : [...sines, ...cosines]);
  return embedding;
}

/**
 * Returns the U-Net's input for the timestep of a step, by its name: its sinusoids, or the number itself.
 *
 * @param {AppManifest} manifest
 * @param {Step} step
 * @returns {Record<string, Float32Array<ArrayBuffer>>}
 */
export function timestepInput(manifest, step) {
  const { timestep } = manifest;
  if (!timestep) return { timestep: Float32Array.of(step.timestep) };
  return { [timestep.input]: embed(timestep, step.timestep) };
}
