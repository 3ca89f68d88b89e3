const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/**
 * Returns bytes as whole megabytes of 10^6 bytes, without the unit: "1,280"; at least 1 where there are any.
 *
 * @param {number} bytes
 */
export function megabytes(bytes) {
  return WHOLE.format(bytes > 0 ? Math.max(1, Math.round(bytes / 1e6)) : 0);
}

/**
 * Returns bytes for people: "640 MB" or "34.2 GB".
 *
 * @param {number} bytes
 */
export function size(bytes) {
  return bytes < 1e10 ? `${megabytes(bytes)} MB` : `${TENTHS.format(bytes / 1e9)} GB`;
}

/**
 * Returns seconds for people: "1.2 s", "48 s" or "3 min 20 s".
 *
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 10) return `${TENTHS.format(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 120) return `${whole} s`;
  return `${WHOLE.format(Math.floor(whole / 60))} min ${whole % 60} s`;
}

/**
 * Returns milliseconds for people: "8.3 ms", "640 ms" or "1.2 s".
 *
 * @param {number} milliseconds
 */
export function shortTime(milliseconds) {
  if (milliseconds >= 1000) return duration(milliseconds / 1000);
  return `${(milliseconds < 100 ? TENTHS : WHOLE).format(milliseconds)} ms`;
}

/**
 * Returns the median; NaN of nothing.
 *
 * @param {readonly number[]} values
 */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
