/**
 * @param {string} text
 * @returns {LiteRtLog}
 */
export function readLiteRtLog(text: string): LiteRtLog;
/**
 * What LiteRT's native log says of a file that it compiled, as msd/runners/native_log.py reads it.
 *
 * LiteRT's own word for a whole file counts what its CPU delegate took, so only the log tells: where everything
 * is on the GPU, it has no list of refusals and no tally.
 */
export type LiteRtLog = {
    /**
     * whether nothing in it speaks against all operations being on the GPU
     */
    whole: boolean;
    /**
     * the kinds of operations that the GPU does not take, each with the reason
     */
    refusals: string[];
    /**
     * other lines about what went wrong
     */
    errors: string[];
};
