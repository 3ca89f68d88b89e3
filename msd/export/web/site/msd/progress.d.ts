/**
 * A picture: RGBA, four bytes for each pixel, row by row.
 */
export type Picture = {
    rgba: Uint8ClampedArray<ArrayBuffer>;
    width: number;
    height: number;
};
/**
 * What is being done. `step` of `steps` are done, the last one in `seconds`, with a preview where one was asked for.
 */
export type Progress = {
    stage: "fetching";
    bytes: number;
    total: number;
} | {
    stage: "loading";
    network: string;
} | {
    stage: "encoding";
} | {
    stage: "denoising";
    step: number;
    steps: number;
    seconds: number;
    preview?: Picture;
} | {
    stage: "decoding";
} | {
    stage: "measuring";
    network: string;
};
/**
 * How to follow what takes long, and to end it.
 */
export type Watch = {
    signal?: AbortSignal;
    onProgress?: (progress: Progress) => void;
};
