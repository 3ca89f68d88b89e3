/**
 * Matrix units: products of matrices that a subgroup of threads computes at once.
 *
 * They are an experiment of Dawn's, which Chrome offers behind chrome://flags/#enable-unsafe-webgpu. Its
 * adapters tell the sizes as `info.subgroupMatrixConfigs`.
 *
 * @typedef {import('./web-manifest.js').MatrixUnit} MatrixUnit
 * @typedef {{ componentType: string, resultComponentType: string, M: number, N: number, K: number }} Config
 * @typedef {object} SubgroupInfo
 * @property {number} [subgroupMinSize]
 * @property {number} [subgroupMaxSize]
 * @property {Iterable<Config>} [subgroupMatrixConfigs]
 */

/** The features of a device whose shaders use matrix units. */
export const MATRIX_FEATURES = ['subgroups', 'chromium-experimental-subgroup-matrix'];

/**
 * Returns whether an adapter has a matrix unit: of f16 with f32 sums, for subgroups of one size.
 *
 * @param {GPUAdapter} adapter
 * @param {MatrixUnit | null} [unit]
 */
export function hasUnit({ features, info }, unit) {
  if (!unit) return false;
  const { rows, columns, depth, subgroup } = unit;
  if (!MATRIX_FEATURES.every((feature) => features.has(feature))) return false;
  const { subgroupMinSize, subgroupMaxSize, subgroupMatrixConfigs = [] } = /** @type {SubgroupInfo} */ (info);
  if (subgroupMinSize !== subgroup || subgroupMaxSize !== subgroup) return false;
  return [...subgroupMatrixConfigs].some(
    ({ componentType, resultComponentType, M, N, K }) =>
      componentType === 'f16' && resultComponentType === 'f32' && M === rows && N === columns && K === depth,
  );
}
