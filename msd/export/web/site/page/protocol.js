/**
 * What the page and its worker say to each other: each question has a number, which its answers repeat.
 *
 * @typedef {import('../msd/errors.js').Code} Code
 * @typedef {'inspect' | 'fetch' | 'generate' | 'verdict' | 'space' | 'remove' | 'cancel'} Call
 * @typedef {{ id: number, call: Call, args?: unknown }} Question
 * @typedef {{ code: Code, message: string }} Fault
 * @typedef {{ id: number, progress?: Progress, result?: unknown, error?: Fault }} Answer
 *
 * `cancel` takes the number of the question to end, which is then answered with the error 'cancelled'.
 *
 * @typedef {import('../msd/progress.js').Picture} Pixels
 * @typedef {import('../msd/progress.js').Progress} Progress
 *
 * @typedef {{ role: string, scale: number } | null} Enlarging
 *
 * @typedef {object} ModelFacts
 * @property {string} name
 * @property {number} width pixels of a picture
 * @property {number} height pixels of a picture
 * @property {number[]} steps the numbers of steps that it offers, the default first
 * @property {string} scheduler
 * @property {number} guidance the default
 * @property {'two passes' | 'batch 2' | 'embedding' | 'none'} mode how guidance works at the default
 * @property {boolean} preview whether a network decodes previews
 * @property {{ required: boolean, inpaints: boolean, strengths: Record<string, number[]> } | null} image how
 * it   reads an image: the strengths by number of steps; whether it needs one, and a mask where it `inpaints`
 * @property {{ name: string, role: string }[]} controls its ControlNets
 * @property {Enlarging} upscaler
 * @property {string} example a prompt to begin with, empty where none is known
 * @property {string | null} licence
 *
 * @typedef {{ used: number, available?: number }} Space
 * Bytes of this model, and those that are free, where the browser says so.
 * @typedef {{ name: string, precision: 'fp16' | 'fp32', problems: string[] }} GpuFacts
 *
 * @typedef {object} Inspection
 * @property {ModelFacts} model
 * @property {{ total: number, there: number }} bytes of all files, and of those that are on this device
 * @property {Record<string, { bytes: { total: number, there: number }, problems: string[] }>} optional the
 * networks that are fetched when a picture needs them, by their roles, and what the GPU lacks for them
 * @property {number} memory bytes that generating needs at its peak, 0 where it is unknown
 * @property {GpuFacts} gpu
 * @property {Space} space
 *
 * @typedef {object} PictureRequest
 * @property {string} prompt
 * @property {string} negativePrompt empty where guidance has no second pass
 * @property {number | bigint} seed 0 … 2^63-1; a number where that is exact
 * @property {number} steps
 * @property {number} guidance
 * @property {number} previewEvery steps between two previews, 0 for none
 * @property {Blob} [image] a file of the user's
 * @property {Uint8Array} [mask] 1 where the picture is repainted, for each of its pixels
 * @property {number} [strength]
 * @property {Steered[]} [controls]
 * @property {boolean} [guess]
 * @property {number} [upscale]
 *
 * @typedef {{ name: string, image: Blob, fromPhoto: boolean }} ControlPicture
 * @typedef {ControlPicture & { scale: number, begin: number, until: number }} Steered
 *
 * @typedef {{ png: Blob, width: number, height: number, metadata: Record<string, unknown> }} Generated
 *
 * @typedef {import('../msd/verdict.js').NetworkVerdict} NetworkVerdict
 * @typedef {Awaited<ReturnType<typeof import('../msd/verdict.js').judgeNetworks>>} Verdict
 */
export {};
