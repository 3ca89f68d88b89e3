import { log1p } from './log1p.js';

const f32 = Math.fround;
const LAYERS = 256;
const SCALE = 2 ** 23;

/** Where the last layer ends, and the area that each layer has. */
const EDGE = 3.6541528853610088;
const AREA = 0.004928673233974658;

const edges = edgesOfLayers();

/** For each layer: its width per unit of distance; which distances are inside; the height where it begins. */
export const WIDTH = Float32Array.from(edges, (_, layer) => outer(layer) / SCALE);
export const INSIDE = Int32Array.from(edges, (_, layer) => Math.round((inner(layer) / outer(layer)) * SCALE));
export const DENSITY = Float32Array.from(edges, density);

/**
 * Normal numbers in float32, those that NumPy's `standard_normal` makes of the same bits: Marsaglia and
 * Tsang, "The Ziggurat Method for Generating Random Variables" (2000), with 256 layers.
 */
export class Ziggurat {
  #bits;

  /** @param {{ next(): number }} bits whose next 32 bits are a number from 0 to 2^32 - 1 */
  constructor(bits) {
    this.#bits = bits;
  }

  /**
   * Returns the next normal number, a float32 number.
   *
   * @returns {number}
   */
  next() {
    for (;;) {
      const drawn = this.#bits.next();
      const layer = drawn & 0xff;
      const distance = drawn >>> 9;
      const x = f32(distance * WIDTH[layer]) * (drawn & 0x100 ? -1 : 1);
      if (distance < INSIDE[layer]) return x;
      if (layer === 0) return this.#tail() * (drawn & 0x20000 ? -1 : 1);
      const between = f32(f32(DENSITY[layer - 1] - DENSITY[layer]) * this.#uniform());
      if (f32(between + DENSITY[layer]) < density(x)) return x;
    }
  }

  /**
   * Returns a number beyond the last layer.
   */
  #tail() {
    for (;;) {
      const x = f32(-f32(1 / EDGE) * log1p(-this.#uniform()));
      const y = -log1p(-this.#uniform());
      if (f32(y + y) > f32(x * x)) return f32(f32(EDGE) + x);
    }
  }

  /**
   * Returns a number of 24 bits in [0, 1).
   */
  #uniform() {
    return (this.#bits.next() >>> 8) / 2 ** 24;
  }
}

function edgesOfLayers() {
  const found = new Float64Array(LAYERS);
  found[LAYERS - 1] = EDGE;
  for (let i = LAYERS - 2; i > 0; i--) {
    found[i] = Math.sqrt(-2 * Math.log(AREA / found[i + 1] + density(found[i + 1])));
  }
  return found;
}

/**
 * Returns how far a layer reaches; the lowest, 0, holds the tail too: as a box it would be wider than its
 * edge.
 *
 * @param {number} layer
 */
function outer(layer) {
  return layer === 0 ? AREA / density(EDGE) : edges[layer];
}

/** @param {number} layer */
function inner(layer) {
  return layer === 0 ? EDGE : edges[layer - 1];
}

/** @param {number} x */
function density(x) {
  return Math.exp(-0.5 * x * x);
}
