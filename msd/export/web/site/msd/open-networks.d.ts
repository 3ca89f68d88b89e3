/**
 * @typedef {import('./network.js').Network} Network
 * @typedef {(role: string, signal?: AbortSignal) => Promise<Network>} Open
 */
/** The networks that are in the GPU's memory at the moment. */
export class OpenNetworks {
    /** @param {Open} open opens a network by its role */
    constructor(open: Open);
    /**
     * Returns a network, opened if it is not. Where memory does not suffice, the others are freed first.
     *
     * @param {string} role
     * @param {AbortSignal} [signal]
     * @returns {Promise<Network>}
     */
    take(role: string, signal?: AbortSignal): Promise<Network>;
    /**
     * Begins to open a network that will be taken; what goes wrong meanwhile is told to whoever takes it.
     *
     * @param {string} role
     * @param {AbortSignal} [signal]
     */
    prefetch(role: string, signal?: AbortSignal): void;
    /**
     * Frees a network, if it is open.
     *
     * @param {string} role
     */
    release(role: string): Promise<void>;
    /** Frees all networks. */
    releaseAll(): Promise<void>;
    #private;
}
export type Network = import("./network.js").Network;
export type Open = (role: string, signal?: AbortSignal) => Promise<Network>;
