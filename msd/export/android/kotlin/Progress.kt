package dev.msd.runtime

/** What is being done. */
public sealed interface Progress {
    /** Files are compared with the manifest's SHA-256, on the first start only: [done] of [total] bytes. */
    public class Checking(public val done: Long, public val total: Long) : Progress

    /** The GPU's programs of [network] are compiled, or read from the cache of an earlier start. */
    public class Compiling(public val network: ModelFile) : Progress

    /** The text encoder runs. */
    public object Encoding : Progress

    /**
     * [step] of [steps] runs of the U-Net are done; [preview] is the image that the model expects by now, if one was
     * asked for.
     */
    public class Denoising(
        public val step: Int,
        public val steps: Int,
        public val preview: GeneratedImage?,
    ) : Progress

    /** The decoder runs. */
    public object Decoding : Progress

    /** The upscaler runs, with the part [tile] of [tiles]. */
    public class Enlarging(public val tile: Int, public val tiles: Int) : Progress
}

/** Receives progress, on the thread that makes it. */
public fun interface OnProgress {
    public fun onProgress(progress: Progress)
}

/** What [Pipeline.updates] emits: progress, and at last the image. */
public sealed interface Update {
    /** The image is not finished. */
    public class Working(public val progress: Progress) : Update

    /** The image. */
    public class Finished(public val image: GeneratedImage) : Update
}
