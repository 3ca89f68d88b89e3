import { MsdError } from './errors.js';

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let i = 0; i < 8; i++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});
const PAETH = 4;

/**
 * Returns a PNG file of RGB pixels, alpha left out, with each of `texts` as an international text chunk, as
 * `msd generate` writes them. PNG Specification, third edition (W3C, 2025).
 *
 * @param {Uint8ClampedArray} rgba
 * @param {number} width
 * @param {number} height
 * @param {Record<string, unknown>} [texts] values are written as `String` makes them
 * @returns {Promise<Blob>}
 */
export async function encodePng(rgba, width, height, texts = {}) {
  const data = await deflated(filtered(rgba, width, height));
  const chunks = [
    chunk('IHDR', header(width, height)),
    ...Object.entries(texts).map(([key, value]) => chunk('iTXt', textChunk(key, String(value)))),
    chunk('IDAT', data),
    chunk('IEND', new Uint8Array(0)),
  ];
  return new Blob([SIGNATURE, ...chunks], { type: 'image/png' });
}

/**
 * Returns the texts of a PNG file by their keys: chunks tEXt and iTXt that are not compressed.
 *
 * Throws 'bad-request' for a file that is no PNG, or is cut.
 *
 * @param {ArrayBuffer} buffer
 * @returns {Record<string, string>}
 */
export function readPngTexts(buffer) {
  const bytes = new Uint8Array(buffer);
  const begins = SIGNATURE.every((byte, i) => bytes[i] === byte);
  if (!begins) throw new MsdError('bad-request', 'the file is no PNG');
  const texts = [...chunksOf(buffer)].flatMap(({ type, data }) => {
    if (type === 'tEXt') return [plainText(data)];
    return type === 'iTXt' ? internationalText(data) : [];
  });
  return Object.fromEntries(texts);
}

/**
 * @param {number} width
 * @param {number} height
 */
function header(width, height) {
  const [depth, colour] = [8, 2];
  const bytes = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, depth, colour, 0, 0, 0);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  return bytes;
}

/**
 * Returns the rows, each of its bytes less what its neighbours predict: Paeth's filter.
 *
 * @param {Uint8ClampedArray} rgba
 * @param {number} width
 * @param {number} height
 */
function filtered(rgba, width, height) {
  const stride = 3 * width + 1;
  const rows = new Uint8Array(stride * height);
  for (let y = 0; y < height; y++) {
    rows[y * stride] = PAETH;
    for (let i = 0; i < 3 * width; i++) {
      const at = 4 * (y * width + Math.floor(i / 3)) + (i % 3);
      const left = i < 3 ? 0 : rgba[at - 4];
      const above = y === 0 ? 0 : rgba[at - 4 * width];
      const corner = i < 3 || y === 0 ? 0 : rgba[at - 4 * width - 4];
      rows[y * stride + 1 + i] = rgba[at] - paeth(left, above, corner);
    }
  }
  return rows;
}

/**
 * @param {number} left
 * @param {number} above
 * @param {number} corner
 */
function paeth(left, above, corner) {
  const guess = left + above - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - above), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function deflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * @param {string} type
 * @param {Uint8Array} data
 */
function chunk(type, data) {
  const bytes = new Uint8Array(12 + data.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, data.length);
  bytes.set(latin1(type), 4);
  bytes.set(data, 8);
  view.setUint32(8 + data.length, crc32(bytes.subarray(4, 8 + data.length)));
  return bytes;
}

/**
 * Returns key, a zero, two that say "not compressed", an empty language and an empty translated key, and the
 * text.
 *
 * @param {string} key
 * @param {string} text
 */
function textChunk(key, text) {
  const whole = text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`);
  return Uint8Array.of(...latin1(key), 0, 0, 0, 0, 0, ...new TextEncoder().encode(whole));
}

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {Iterable<{ type: string, data: Uint8Array }>}
 */
function* chunksOf(buffer) {
  const view = new DataView(buffer);
  for (let at = SIGNATURE.length; at + 12 <= buffer.byteLength; ) {
    const length = view.getUint32(at);
    const type = textOf(new Uint8Array(buffer, at + 4, 4));
    if (at + 12 + length > buffer.byteLength) break;
    yield { type, data: new Uint8Array(buffer, at + 8, length) };
    if (type === 'IEND') return;
    at += 12 + length;
  }
  throw new MsdError('bad-request', 'the PNG file is cut');
}

/**
 * @param {Uint8Array} data
 * @returns {[string, string]}
 */
function plainText(data) {
  const end = data.indexOf(0);
  return [textOf(data.subarray(0, end)), textOf(data.subarray(end + 1))];
}

/**
 * Returns the key and the text, in a list that is empty if they are compressed.
 *
 * @param {Uint8Array} data
 * @returns {[string, string][]}
 */
function internationalText(data) {
  const end = data.indexOf(0);
  if (data[end + 1] !== 0) return [];
  const language = data.indexOf(0, end + 3);
  const translated = data.indexOf(0, language + 1);
  return [[textOf(data.subarray(0, end)), new TextDecoder().decode(data.subarray(translated + 1))]];
}

/** @param {string} text */
function latin1(text) {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

/** @param {Uint8Array} bytes */
function textOf(bytes) {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
}
