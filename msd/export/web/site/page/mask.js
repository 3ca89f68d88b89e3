/** What is to be repainted: 1 or 0 for each pixel of a picture. */
export class Mask {
  /**
   * @param {number} width
   * @param {number} height
   */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.pixels = new Uint8Array(width * height);
  }

  /** Whether nothing is marked. */
  get empty() {
    return !this.pixels.includes(1);
  }

  /**
   * Writes a value into every pixel whose centre is within `radius` of the segment between two points.
   *
   * @param {[number, number]} from x and y in pixels
   * @param {[number, number]} to
   * @param {number} radius
   * @param {0 | 1} value
   */
  stroke([fromX, fromY], [toX, toY], radius, value) {
    const [alongX, alongY] = [toX - fromX, toY - fromY];
    const length = alongX ** 2 + alongY ** 2;
    const [left, right] = span(fromX, toX, radius, this.width);
    const [top, bottom] = span(fromY, toY, radius, this.height);
    for (let y = top; y < bottom; y++) {
      for (let x = left; x < right; x++) {
        const [dx, dy] = [x + 0.5 - fromX, y + 0.5 - fromY];
        const at = length ? Math.min(1, Math.max(0, (dx * alongX + dy * alongY) / length)) : 0;
        if ((dx - at * alongX) ** 2 + (dy - at * alongY) ** 2 <= radius ** 2)
          this.pixels[y * this.width + x] = value;
      }
    }
  }

  /** Marks nothing. */
  clear() {
    this.pixels.fill(0);
  }
}

/**
 * @param {number} a
 * @param {number} b
 * @param {number} radius
 * @param {number} end
 */
function span(a, b, radius, end) {
  return [
    Math.max(0, Math.floor(Math.min(a, b) - radius)),
    Math.min(end, Math.ceil(Math.max(a, b) + radius)),
  ];
}
