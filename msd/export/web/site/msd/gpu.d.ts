/**
 * Looks for a GPU; never throws.
 *
 * @param {Needs} [manifest] of the model that should run on it
 * @param {'fp16' | 'fp32'} [wanted] another precision than the best
 * @returns {Promise<Gpu>}
 */
export function findGpu(manifest?: Needs, wanted?: "fp16" | "fp32"): Promise<Gpu>;
/**
 * Opens a device with what the model needs; several may be open.
 *
 * @param {Gpu} gpu
 * @returns {Promise<GPUDevice>}
 * @throws {MsdError} no-webgpu, too-small, failed
 */
export function openDevice(gpu: Gpu): Promise<GPUDevice>;
/** @param {unknown} problem */
export function wordsOf(problem: unknown): string;
/**
 * A GPU that the browser offers, as plain data: nothing is open yet.
 */
export type Gpu = {
    /**
     * its vendor and architecture, as far as the browser tells
     */
    name: string;
    /**
     * what the browser tells of the adapter
     */
    info: Record<string, string>;
    features: string[];
    limits: Record<string, number>;
    /**
     * fp16 where it has shader-f16
     */
    precision: "fp16" | "fp32";
    /**
     * which of the model's programs it runs
     */
    kind: string;
    /**
     * the limits beyond WebGPU's defaults that the model's programs need
     */
    needs: Record<string, number>;
    /**
     * sentences: what keeps the model from running here; empty where nothing does
     */
    problems: string[];
};
/**
 * The part of web-manifest.json that says what a model needs.
 */
export type Programs = {
    programs: Record<string, {
        limits: Record<string, number>;
    }>;
};
/**
 * The part of web-manifest.json that says what a model needs.
 */
export type Needs = {
    networks: Programs[];
};
