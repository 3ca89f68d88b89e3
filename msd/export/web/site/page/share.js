/**
 * Offers a file for download.
 *
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement('a'), { href, download: name }).click();
  // The browser reads the file after the click; a minute is ample.
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

/**
 * Returns whether this browser shares files like these.
 *
 * @param {File[]} files
 */
export function canShare(files) {
  return navigator.canShare?.({ files }) ?? false;
}

/**
 * Returns whether the user shared files; false where they changed their mind.
 *
 * @param {File[]} files
 */
export function share(files) {
  return navigator.share({ files }).then(
    () => true,
    () => false,
  );
}

/** Returns whether this browser copies pictures. */
export function canCopy() {
  return 'ClipboardItem' in window && Boolean(navigator.clipboard?.write);
}

/**
 * Returns whether a picture was copied; false where the browser refused.
 *
 * @param {Blob} png
 */
export function copy(png) {
  return navigator.clipboard.write([new ClipboardItem({ 'image/png': png })]).then(
    () => true,
    () => false,
  );
}
