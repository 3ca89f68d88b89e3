/**
 * by the names of inputs or outputs
 */
export type Tensors = Record<string, Float32Array | Int32Array>;
/**
 * What an open network is, whichever runtime runs it: named arrays in, named arrays out.
 */
export type NetworkFacts = {
    /**
     * of its activations on the GPU
     */
    precision: "fp16" | "fp32";
    /**
     * of the .tflite file
     */
    operations?: number | undefined;
    /**
     * of these, those that run on the GPU
     */
    delegated?: number | undefined;
    /**
     * the pieces of the graph that do
     */
    partitions?: number | undefined;
    /**
     * what LiteRT said while it compiled the file
     */
    log?: string[] | undefined;
    /**
     * of msd's own program
     */
    dispatches?: number | undefined;
    /**
     * bytes of its buffers on the GPU, where they are known
     */
    memory?: number | undefined;
};
/**
 * What an open network is, whichever runtime runs it: named arrays in, named arrays out.
 */
export type Network = {
    facts: NetworkFacts;
    /**
     * returns all outputs,
     * floats as float32, integers as int32
     */
    run: (inputs: Tensors) => Promise<Tensors>;
    /**
     * returns the milliseconds of
     * each run, from inputs on the GPU until the GPU has finished
     */
    time: (inputs: Tensors, repeats: number) => Promise<number[]>;
    /**
     * frees its memory
     */
    close: () => void;
};
