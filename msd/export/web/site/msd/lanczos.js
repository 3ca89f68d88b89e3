/**
 * Resampling with a Lanczos kernel whose support grows with the reduction, so that nothing aliases: the
 * numbers of Pillow's `Image.resize` for 8 bits per channel (its libImaging/Resample.c), fixed point and all.
 *
 * An image is a `Uint8ClampedArray` of `channels` bytes per pixel, row by row.
 *
 * @typedef {{ data: Uint8ClampedArray<ArrayBuffer>, width: number, height: number, channels: number }} Raster
 */
const LOBES = 3;
const PRECISION = 22;

/**
 * Returns an image at another size: across first, then down, each rounded to 8 bits.
 *
 * @param {Raster} raster
 * @param {number} width
 * @param {number} height
 * @returns {Raster}
 */
export function resize(raster, width, height) {
  const across = raster.width === width ? raster : resampled(raster, width);
  return across.height === height ? across : transposed(resampled(transposed(across), height));
}

/**
 * Returns an image of another width.
 *
 * @param {Raster} raster
 * @param {number} width
 * @returns {Raster}
 */
function resampled({ data, width: from, height, channels }, width) {
  const made = new Uint8ClampedArray(width * height * channels);
  kernels(from, width).forEach(({ first, weights }, x) => {
    for (let i = 0; i < height * channels; i++) {
      const [row, channel] = [Math.floor(i / channels), i % channels];
      let at = (row * from + first) * channels + channel;
      let sum = 1 << (PRECISION - 1);
      for (const weight of weights) {
        sum += data[at] * weight;
        at += channels;
      }
      made[(row * width + x) * channels + channel] = sum >> PRECISION;
    }
  });
  return { data: made, width, height, channels };
}

/**
 * @param {Raster} raster
 * @returns {Raster}
 */
function transposed({ data, width, height, channels }) {
  const made = new Uint8ClampedArray(data.length);
  for (let i = 0; i < data.length; i++) {
    const [pixel, channel] = [Math.floor(i / channels), i % channels];
    const [row, column] = [Math.floor(pixel / width), pixel % width];
    made[(column * height + row) * channels + channel] = data[i];
  }
  return { data: made, width: height, height: width, channels };
}

/**
 * Returns for each of `to` places the first of `from` places that it is made of, and their weights in fixed
 * point.
 *
 * @param {number} from
 * @param {number} to
 */
function kernels(from, to) {
  const scale = from / to;
  const widening = Math.max(scale, 1);
  return Array.from({ length: to }, (_, i) => {
    const center = (i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - LOBES * widening + 0.5));
    const end = Math.min(from, Math.trunc(center + LOBES * widening + 0.5));
    const places = Array.from({ length: end - first }, (_, place) => place);
    const weights = places.map((place) => lanczos((place + first - center + 0.5) * (1 / widening)));
    const sum = weights.reduce((a, b) => a + b, 0);
    return { first, weights: Int32Array.from(weights, (weight) => fixed(sum === 0 ? weight : weight / sum)) };
  });
}

/** @param {number} weight */
function fixed(weight) {
  return Math.trunc(weight * 2 ** PRECISION + (weight < 0 ? -0.5 : 0.5));
}

/** @param {number} x */
function lanczos(x) {
  return x >= -LOBES && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0;
}

/** @param {number} x */
function sinc(x) {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}
