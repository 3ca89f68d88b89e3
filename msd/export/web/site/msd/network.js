/**
 * What an open network is, whichever runtime runs it: named arrays in, named arrays out.
 *
 * @typedef {Record<string, Float32Array | Int32Array>} Tensors by the names of inputs or outputs
 *
 * @typedef {object} NetworkFacts
 * @property {'fp16' | 'fp32'} precision of its activations on the GPU
 * @property {number} [operations] of the .tflite file
 * @property {number} [delegated] of these, those that run on the GPU
 * @property {number} [partitions] the pieces of the graph that do
 * @property {string[]} [log] what LiteRT said while it compiled the file
 * @property {number} [dispatches] of msd's own program
 * @property {number} [memory] bytes of its buffers on the GPU, where they are known
 *
 * @typedef {object} Network
 * @property {NetworkFacts} facts
 * @property {(inputs: Tensors) => Promise<Tensors>} run returns all outputs,
 *   floats as float32, integers as int32
 * @property {(inputs: Tensors, repeats: number) => Promise<number[]>} time returns the milliseconds of
 *   each run, from inputs on the GPU until the GPU has finished
 * @property {() => void} close frees its memory
 */
export {};
