/**
 * Asks the browser not to delete what this origin keeps when the device runs short of space.
 *
 * Only a page may ask, not a worker. Firefox asks the visitor: call it when they have clicked on something.
 *
 * @returns {Promise<boolean>}  whether the browser agrees
 */
export function persist(): Promise<boolean>;
