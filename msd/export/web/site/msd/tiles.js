/**
 * Tiles of `rows` by `columns` cells, of which neighbours share at least `overlap`. They begin at multiples
 * of `multiple`, which divides the tile and all that is tiled.
 *
 * @typedef {{ rows: number, columns: number, overlap: number, multiple: number }} Tiling
 */

/**
 * A tile along one axis: where it begins, and the share of each of its cells, from 0 to 1.
 *
 * @typedef {{ start: number, shares: Float32Array }} Stretch
 */

/**
 * What is computed of a tile: the values of its cells, row by row.
 *
 * @typedef {(top: number, left: number) => Promise<Float32Array>} Run
 */

/**
 * Returns the cells along a side of `size` that tiles cover: whole multiples, and no less than a tile.
 *
 * @param {number} size
 * @param {number} tile
 * @param {number} multiple
 */
export function covered(size, tile, multiple) {
  return Math.max(Math.ceil(size / multiple) * multiple, tile);
}

/**
 * Returns how many tiles cover `rows` by `columns` cells.
 *
 * @param {number} rows
 * @param {number} columns
 * @param {Tiling} tiling
 */
export function tileCount(rows, columns, { overlap, multiple, ...tile }) {
  return (
    spans(rows, tile.rows, overlap, multiple).length * spans(columns, tile.columns, overlap, multiple).length
  );
}

/**
 * Returns the tiles of `tile` cells that cover `size`, which is not smaller, in order, as
 * msd/run/runtime/tiles.py does: one fades into the next over half of `overlap`.
 *
 * @param {number} size
 * @param {number} tile
 * @param {number} overlap
 * @param {number} multiple
 * @returns {Stretch[]}
 */
export function spans(size, tile, overlap, multiple) {
  const count = Math.max(1, Math.ceil((size - overlap) / (tile - overlap)));
  const gaps = Math.max(1, count - 1);
  const starts = Array.from(
    { length: count },
    (_, i) => Math.floor(Math.floor(((size - tile) * i) / gaps) / multiple) * multiple,
  );
  const middles = starts.slice(1).map((start, i) => (start + starts[i] + tile) / 2);
  return starts.map((start, i) => {
    const shares = Float32Array.from({ length: tile }, (_, at) => {
      const cell = Math.fround(start + at + 0.5);
      const begun = i > 0 ? rise(cell, middles[i - 1], overlap / 2) : 1;
      return Math.fround(begun - (i < middles.length ? rise(cell, middles[i], overlap / 2) : 0));
    });
    return { start, shares };
  });
}

/**
 * Yields what `run` computes of `rows` by `columns` cells, joined without a seam: whole rows of `channels`
 * numbers for each cell, from above, as many at once as no further tile reaches.
 *
 * `run` returns `scale` times the rows and columns of a tile. A row of tiles is in memory at a time. Sums are
 * rounded to float32 where NumPy rounds them.
 *
 * @param {{ rows: number, columns: number, scale: number, channels: number }} whole
 * @param {Tiling} tiling
 * @param {Run} run
 */
export async function* joinedRows({ rows, columns, scale, channels }, tiling, run) {
  const [overlap, multiple] = [scale * tiling.overlap, scale * tiling.multiple];
  const down = spans(scale * rows, scale * tiling.rows, overlap, multiple);
  const across = spans(scale * columns, scale * tiling.columns, overlap, multiple);
  const line = scale * columns * channels;
  let ahead = new Float32Array(0);
  for (const [i, { start, shares }] of down.entries()) {
    const strip = await joined(start / scale, across, { line, scale, channels, height: shares.length }, run);
    for (let at = 0; at < strip.length; at++) {
      strip[at] *= shares[Math.floor(at / line)];
      if (at < ahead.length) strip[at] += ahead[at];
    }
    const done = i + 1 < down.length ? (down[i + 1].start - start) * line : strip.length;
    yield strip.subarray(0, done);
    ahead = strip.slice(done);
  }
}

/**
 * Returns a row of tiles, joined.
 *
 * @param {number} top
 * @param {Stretch[]} across
 * @param {{ line: number, scale: number, channels: number, height: number }} size
 * @param {Run} run
 */
async function joined(top, across, { line, scale, channels, height }, run) {
  const strip = new Float32Array(height * line);
  for (const { start, shares } of across) {
    const tile = await run(top, start / scale);
    const width = shares.length * channels;
    for (let row = 0; row < height; row++) {
      const first = row * line + start * channels;
      for (let at = 0; at < width; at++) {
        strip[first + at] += Math.fround(shares[Math.floor(at / channels)] * tile[row * width + at]);
      }
    }
  }
  return strip;
}

/**
 * Returns a ramp from 0 to 1 of `length` cells around `middle`.
 *
 * @param {number} cell
 * @param {number} middle
 * @param {number} length
 */
function rise(cell, middle, length) {
  const at = Math.fround(Math.fround(Math.fround(cell - middle) / Math.max(1, length)) + 0.5);
  return Math.min(Math.max(at, 0), 1);
}
