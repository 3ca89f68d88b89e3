package dev.msd.runtime

import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors

/**
 * Generates the images of one model, one after the other.
 *
 * Networks are opened, run and freed on one thread, whoever calls. Those of prompts and images are freed when they have
 * run, those of every step are kept until [trim] or [close], the decoder is opened for the image and freed.
 */
public class Pipeline(
    public val manifest: Manifest,
    private val tokenizers: Map<String, ClipTokenizer>,
    opener: Opener,
) : AutoCloseable {
    private val worker: ExecutorService = Executors.newSingleThreadExecutor { Thread(it, "msd-generate") }
    private val networks = OpenNetworks(manifest, opener)

    /** Milliseconds to rest between two steps, for a device that is too warm. */
    @Volatile
    public var rest: Long = 0

    @Volatile
    private var closed = false
    private val unfinished = HashSet<Generation>()

    /**
     * Begins to generate, and returns at once; [onProgress] is called on the pipeline's thread.
     *
     * Throws [BadRequest] for a number of steps without a schedule or a negative seed, [Cancelled] after [close].
     */
    @Synchronized
    public fun start(request: Request, onProgress: OnProgress = OnProgress {}): Generation {
        val schedule = manifest.scheduleOf(request)
        if (closed) throw closing()
        val generation = Generation()
        unfinished += generation
        worker.execute {
            finish(generation) {
                Run(manifest, tokenizers, networks, request, schedule, ::rest, generation::check).image(onProgress)
            }
        }
        return generation
    }

    /**
     * Returns what is not used of a request as its writer may have meant it.
     *
     * Throws [BadRequest] for controls in steps that the model has no schedule for, and whatever [start] refuses then.
     */
    public fun remarks(request: Request): List<Remark> {
        val guidance = Guidance.of(manifest, request.guidance ?: manifest.guidance)
        val own = remarks(request, guidance, tokenizers.values.first(), manifest.promptChunks)
        if (request.controls.isEmpty()) return own
        return own + request.controls.idle(manifest.scheduleOf(request).steps.size)
    }

    /** Frees what is kept between images, when the images asked for so far are done; returns at once. */
    @Synchronized
    public fun trim() {
        if (!closed) worker.execute(networks::releaseAll)
    }

    /** Cancels all images, then frees everything when the step or compilation that runs has ended. Returns at once. */
    @Synchronized
    override fun close() {
        if (closed) return
        closed = true
        unfinished.toList().forEach { it.fail(closing()) }
        worker.execute(networks::releaseAll)
        worker.shutdown()
    }

    private fun finish(generation: Generation, image: () -> GeneratedImage) {
        try {
            generation.check()
            generation.finish(image())
        } catch (problem: Throwable) {
            generation.fail(problem)
        } finally {
            synchronized(this) { unfinished -= generation }
        }
    }

    private fun closing() = Cancelled("the pipeline has been closed")
}
