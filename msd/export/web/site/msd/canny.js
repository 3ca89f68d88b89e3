/**
 * Canny's edges ("A Computational Approach to Edge Detection", 1986), as `msd generate --from-photo` finds
 * them with scikit-image, in float32.
 */

/** Of brightness from 0 to 1: the Gaussian's standard deviation in pixels, and the thresholds of slopes. */
const BLUR = 1.4;
const [LOW, HIGH] = [0.1, 0.2].map(Math.fround);

/** Of red, green and blue in brightness. */
const SHARES = [0.2125, 0.7154, 0.0721].map(Math.fround);

const GAUSSIAN = gaussian(BLUR);
const SLOPE = [-1, 0, 1];
const SMOOTH = [1, 2, 1];

/** @typedef {{ values: Float32Array<ArrayBuffer>, width: number, height: number }} Plane */

/**
 * Returns the edges of an image, white on black; both float32 NHWC RGB in [-1, 1].
 *
 * @param {Float32Array} pixels
 * @param {number} width
 * @param {number} height
 * @returns {Float32Array<ArrayBuffer>}
 */
export function edgesOf(pixels, width, height) {
  const smooth = blurred({ values: brightness(pixels), width, height });
  const across = filtered(filtered(smooth, SLOPE, false), SMOOTH, true).values;
  const down = filtered(filtered(smooth, SLOPE, true), SMOOTH, false).values;
  const squared = (/** @type {number} */ x) => Math.fround(x * x);
  const steep = across.map((x, i) => Math.sqrt(Math.fround(squared(down[i]) + squared(x))));
  const edges = connected(thinned({ values: steep, width, height }, across, down), width);
  return new Float32Array(pixels.length).map((_, i) => (edges[Math.floor(i / 3)] ? 1 : -1));
}

/** @param {Float32Array} pixels */
function brightness(pixels) {
  const share = (/** @type {number} */ at) =>
    Math.fround(SHARES[at % 3] * Math.fround(Math.fround(pixels[at] + 1) / 2));
  return new Float32Array(pixels.length / 3).map((_, i) => {
    return Math.fround(Math.fround(share(3 * i) + share(3 * i + 1)) + share(3 * i + 2));
  });
}

/**
 * Returns the shares of a pixel and its neighbours along a line, up to four deviations away.
 *
 * @param {number} deviation
 */
function gaussian(deviation) {
  const radius = Math.floor(4 * deviation + 0.5);
  const places = Array.from({ length: 2 * radius + 1 }, (_, i) => i - radius);
  const heights = places.map((place) => Math.exp(-0.5 * (place / deviation) ** 2));
  const sum = heights.reduce((a, b) => a + b);
  return heights.map((height) => height / sum);
}

/**
 * Returns a blurred plane, in which what lies outside does not count.
 *
 * @param {Plane} plane
 */
function blurred(plane) {
  const blur = (/** @type {Plane} */ sharp) =>
    filtered(filtered(sharp, GAUSSIAN, true, 0), GAUSSIAN, false, 0).values;
  const inside = blur({ ...plane, values: plane.values.map(() => 1) });
  const values = blur(plane).map((value, i) => value / Math.fround(inside[i] + EPSILON));
  return { ...plane, values };
}

/** That of float32. */
const EPSILON = 2 ** -23;

/**
 * Returns a plane's sums of neighbours, weighted, across or down; what lies outside is as the border, or
 * `outside`.
 *
 * @param {Plane} plane
 * @param {number[]} weights
 * @param {boolean} down
 * @param {number} [outside]
 * @returns {Plane}
 */
function filtered({ values, width, height }, weights, down, outside) {
  const radius = weights.length >> 1;
  const [step, last] = down ? [width, height - 1] : [1, width - 1];
  const found = new Float32Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const place = down ? Math.floor(i / width) : i % width;
    let sum = 0;
    for (let k = -radius; k <= radius; k++) {
      const within = Math.min(Math.max(place + k, 0), last);
      const beyond = within === place + k ? undefined : outside;
      sum += weights[k + radius] * (beyond ?? values[i + (within - place) * step]);
    }
    found[i] = sum;
  }
  return { values: found, width, height };
}

/**
 * Returns the slopes that are no smaller than those on either side of the edge, 0 elsewhere and where they
 * are low.
 *
 * @param {Plane} steep
 * @param {Float32Array} across
 * @param {Float32Array} down
 */
function thinned({ values, width, height }, across, down) {
  const kept = new Float32Array(values.length);
  for (let y = 1; y < height - 1; y++) {
    for (let x = 1; x < width - 1; x++) {
      const i = y * width + x;
      if (values[i] < LOW) continue;
      const [wide, tall] = [Math.abs(across[i]), Math.abs(down[i])];
      const [right, below] = [across[i] < 0 ? -1 : 1, down[i] < 0 ? -width : width];
      const straight = tall > wide ? below : right;
      const slant = Math.fround(Math.min(wide, tall) / Math.max(wide, tall));
      const beside = (/** @type {number} */ sign) =>
        mixed(values[i + sign * straight], values[i + sign * (right + below)], slant);
      if (beside(1) <= values[i] && beside(-1) <= values[i]) kept[i] = values[i];
    }
  }
  return kept;
}

/**
 * Returns a value between two, `share` of the way to the second.
 *
 * @param {number} first
 * @param {number} second
 * @param {number} share
 */
function mixed(first, second, share) {
  return Math.fround(Math.fround(second * share) + Math.fround(first * Math.fround(1 - share)));
}

/**
 * Returns 1 for each pixel that is joined to a high slope by slopes, 0 for the others.
 *
 * @param {Float32Array} slopes 0 in the border
 * @param {number} width
 */
function connected(slopes, width) {
  const edges = new Uint8Array(slopes.length);
  const open = [...slopes.keys()].filter((i) => slopes[i] >= HIGH);
  for (const i of open) edges[i] = 1;
  for (let i = open.pop(); i !== undefined; i = open.pop()) {
    for (const row of [-width, 0, width]) {
      for (let at = i + row - 1; at <= i + row + 1; at++) {
        if (edges[at] || !slopes[at]) continue;
        edges[at] = 1;
        open.push(at);
      }
    }
  }
  return edges;
}
