/**
 * Keeps the screen on, because a phone that sleeps stops computing; returns what lets it sleep again.
 *
 * @returns {Promise<() => void>}
 */
export async function keepAwake() {
  try {
    const lock = await navigator.wakeLock?.request('screen');
    return () => void lock?.release();
  } catch {
    return () => {};
  }
}
