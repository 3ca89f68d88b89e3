/** @typedef {import('./calls.js').Source} Source */

/**
 * The quantities of a step of an image of `height` by `width` pixels; `guidance` as it is embedded.
 *
 * @typedef {{ timestep: number, guidance: number, height: number, width: number }} Numbers
 */

/**
 * Returns float32 sinusoids of a number `t`, half of them cosines, half sines; the last of `width` is 0 if it
 * is odd.
 *
 * Ho et al., "Denoising Diffusion Probabilistic Models" (2020). The angle is rounded to float32, as where the
 * network was trained; its cosine is taken in float64.
 *
 * @param {Source} source
 * @param {number} width
 * @param {number} t
 * @returns {Float32Array<ArrayBuffer>}
 */
export function embed({ frequencies = [], cosine_first: cosineFirst = false }, width, t) {
  const f32 = Math.fround;
  const angles = frequencies.map((frequency) => f32(f32(t) * f32(frequency)));
  const [cosines, sines] = [angles.map(Math.cos), angles.map(Math.sin)];
  const embedding = new Float32Array(width);
  embedding.set(cosineFirst ? [...cosines, ...sines] : [...sines, ...cosines]);
  return embedding;
}

/**
 * Returns what an input of `width` elements takes of a source: its numbers, or the sinusoids of each.
 *
 * @param {Source} source
 * @param {number} width
 * @param {Numbers} numbers
 * @returns {Float32Array<ArrayBuffer>}
 */
export function numbersInput(source, width, numbers) {
  const values = valuesOf(source, numbers);
  if (source.kind === 'numbers') return Float32Array.from(values);
  const each = Math.floor(width / values.length);
  const whole = new Float32Array(each * values.length);
  values.forEach((value, i) => whole.set(embed(source, each, value), i * each));
  return whole;
}

/**
 * Returns the numbers of a source; sizes are the original one, the corner of the crop and the target (Podell
 * et al., "SDXL", 2023, section 2.2), each height first.
 *
 * @param {Source} source
 * @param {Numbers} numbers
 */
function valuesOf({ of }, { timestep, guidance, height, width }) {
  if (of === 'sizes') return [height, width, 0, 0, height, width];
  return [of === 'guidance' ? guidance : timestep];
}
