/**
 * Checks that all numbers of a description are what a program can have: it may come from anywhere.
 *
 * @param {unknown} value parsed JSON
 * @returns {ProgramDescription}
 * @throws {MsdError} damaged
 */
export function checkDescription(value: unknown): ProgramDescription;
/**
 * @param {ProgramDescription} program
 * @returns {Uint8Array<ArrayBuffer>} the content of its buffer of parameters, whole words
 * @throws {MsdError} damaged
 */
export function paramsOf(program: ProgramDescription): Uint8Array<ArrayBuffer>;
/** @param {string} why */
export function damaged(why: string): MsdError;
/**
 * A network as buffers and dispatches of compute shaders: what msd/webgpu/store.py writes.
 */
export type Place = {
    buffer: number;
    offset: number;
    bytes: number;
};
/**
 * A network as buffers and dispatches of compute shaders: what msd/webgpu/store.py writes.
 */
export type Port = {
    shape: number[];
    dtype: string;
    element: "f32" | "f16" | "i32" | "u32";
    place: Place;
};
/**
 * A network as buffers and dispatches of compute shaders: what msd/webgpu/store.py writes.
 */
export type Shard = {
    file: string;
    place: Place;
    sha256: string;
};
/**
 * A network as buffers and dispatches of compute shaders: what msd/webgpu/store.py writes.
 */
export type Pipeline = {
    name: string;
    wgsl: string;
    bindings: GPUBufferBindingType[];
};
/**
 * A network as buffers and dispatches of compute shaders: what msd/webgpu/store.py writes.
 */
export type Step = {
    pipeline: number;
    places: Place[];
    groups: [number, number, number];
    operation: string;
};
/**
 * A network as buffers and dispatches of compute shaders: what msd/webgpu/store.py writes.
 */
export type ProgramDescription = {
    format: number;
    /**
     * whether it needs the feature shader-f16
     */
    half: boolean;
    /**
     * their bytes: of activations, parameters, constants, further activations
     */
    buffers: number[];
    /**
     * the content of buffer 1, in base64
     */
    params: string;
    /**
     * the constants
     */
    shards: Shard[];
    pipelines: Pipeline[];
    steps: Step[];
    inputs: Record<string, Port>;
    outputs: Record<string, Port>;
};
import { MsdError } from './errors.js';
