package dev.msd.runtime

import java.io.File
import java.util.concurrent.Callable
import java.util.concurrent.ExecutionException
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors
import java.util.concurrent.Future

/**
 * One picture to draw; [steps] are those of the manifest's first schedule where they are null, and [guidance] is the
 * manifest's. The negative prompt needs guidance above 1.
 */
public class Request(
    public val prompt: String,
    public val negativePrompt: String = "",
    public val seed: Long = 0,
    public val steps: Int? = null,
    public val guidance: Double? = null,
)

/** Told, on the drawing thread, after each step: how many are done, and how many there are in all. */
public fun interface Progress {
    public fun onStep(done: Int, total: Int)
}

/** A picture on its way. */
public class Drawing internal constructor() {
    @Volatile
    private var stopped = false
    internal lateinit var future: Future<Picture>

    /** Ends it after the step that is running; [await] then throws [Cancelled]. */
    public fun cancel() {
        stopped = true
    }

    /** Waits for the picture; throws the [RuntimeFailure] that ended it. */
    public fun await(): Picture = future.result()

    internal fun check() {
        if (stopped) throw Cancelled("drawing was cancelled")
    }
}

/**
 * Draws the pictures of one model, one after the other.
 *
 * Networks run and are freed on one thread, whoever calls; a second one opens them. The text encoder is freed when
 * it has run, the U-Net is kept until [trim] or [close], the decoder is opened while the last steps run.
 */
public class Pipeline(
    private val manifest: Manifest,
    private val tokenizer: ClipTokenizer,
    private val opener: Opener,
) : AutoCloseable {
    private val worker: ExecutorService = Executors.newSingleThreadExecutor { Thread(it, "msd-draw") }
    private val loader: ExecutorService = Executors.newSingleThreadExecutor { Thread(it, "msd-load") }
    private val networks = HashMap<String, Future<Network>>()

    /** Milliseconds to rest between two steps, for a device that is too warm. */
    @Volatile
    public var rest: Long = 0

    @Volatile
    private var closed = false

    /**
     * Begins to draw, and returns at once.
     *
     * Throws [BadRequest] for a number of steps without a schedule or a negative seed, [Cancelled] after [close].
     */
    @Synchronized
    public fun draw(request: Request, progress: Progress = Progress { _, _ -> }): Drawing {
        val known = manifest.schedules
        val schedule = known[request.steps ?: known.keys.first()] ?: throw BadRequest(
            "there is no schedule for ${request.steps} steps; there are ${known.keys.sorted().joinToString()}",
        )
        if (request.seed < 0) throw BadRequest("the seed ${request.seed} is negative; it should be 0 or more")
        checkOpen()
        return Drawing().apply {
            future = worker.submit(Callable { Run(request, schedule, progress, this).picture() })
        }
    }

    /** Frees what is kept between pictures, when the pictures asked for so far are done; returns at once. */
    @Synchronized
    public fun trim() {
        if (!closed) worker.execute { release(UNET) }
    }

    /** Cancels what is being drawn, after its step, and what waits; then frees everything. Returns at once. */
    @Synchronized
    override fun close() {
        if (closed) return
        closed = true
        worker.execute {
            networks.keys.toList().forEach(::release)
            loader.shutdown()
        }
        worker.shutdown()
    }

    private fun checkOpen() {
        if (closed) throw Cancelled("the pipeline has been closed")
    }

    private fun prefetch(role: String) {
        networks.getOrPut(role) { loader.submit(Callable { opener.open(manifest.file(role)) }) }
    }

    /** Returns a network once it is open; one that could not be opened is tried again the next time. */
    private fun take(role: String): Network {
        prefetch(role)
        return try {
            networks.getValue(role).result()
        } catch (problem: Throwable) {
            networks.remove(role)
            throw problem
        }
    }

    private fun release(role: String) {
        val opened = networks.remove(role) ?: return
        val network = try {
            opened.get()
        } catch (_: ExecutionException) {
            return
        }
        network.close()
    }

    /** One picture; lives on the drawing thread. */
    private inner class Run(
        private val request: Request,
        private val schedule: Schedule,
        private val progress: Progress,
        private val drawing: Drawing,
    ) {
        private val guidance = Guidance.of(manifest, request.guidance ?: manifest.guidance)
        private val unet = manifest.file(UNET)

        fun picture(): Picture = try {
            val contexts = encoded()
            val latents = denoised(contexts)
            val image = take(DECODER).rows(manifest.file(DECODER), listOf(mapOf("latent" to Tensor.Floats(latents))))
            Picture(pixels(image[0]), manifest.width, manifest.height, latents)
        } finally {
            release(ENCODER)
            release(DECODER)
        }

        private fun encoded(): List<FloatArray> {
            check()
            val encoder = take(ENCODER)
            prefetch(UNET)
            val chunks = manifest.promptChunks
            val prompts = guidance.prompts(request.prompt, request.negativePrompt)
            val tokens = prompts.flatMap { tokenizer.chunks(it, chunks) }
            return encoder.rows(manifest.file(ENCODER), tokens.map { mapOf("tokens" to Tensor.Ints(it)) })
                .chunked(chunks) { it.reduce(FloatArray::plus) }
                .also { release(ENCODER) }
        }

        private fun denoised(contexts: List<FloatArray>): FloatArray {
            val network = take(UNET)
            val size = manifest.latent.fold(1, Int::times)
            var latents = noise(request.seed, size).also { for (i in it.indices) it[i] *= schedule.start }
            var clean: FloatArray? = null
            schedule.steps.forEachIndexed { i, step ->
                check()
                if (i > 0 && rest > 0) Thread.sleep(rest)
                if (schedule.steps.size - i <= LAST_STEPS) prefetch(DECODER)
                val output = guidance.combine(network.rows(unet, rows(latents, contexts, step), shared(step)))
                val added = if (step.noise != 0f) noise(request.seed, size, i + 1) else null
                val (next, cleaned) = step.apply(latents, output, clean, added)
                latents = next
                clean = cleaned
                progress.onStep(i + 1, schedule.steps.size)
            }
            check()
            return latents
        }

        private fun rows(latents: FloatArray, contexts: List<FloatArray>, step: Step): List<Map<String, Tensor>> {
            val scaled = Tensor.Floats(FloatArray(latents.size) { step.scale * latents[it] })
            return contexts.map { mapOf("latent" to scaled, "context" to Tensor.Floats(it)) }
        }

        private fun check() {
            checkOpen()
            drawing.check()
        }

        /** Returns the timestep and the guidance as this U-Net takes them. */
        private fun shared(step: Step): Map<String, FloatArray> {
            val sinusoids = manifest.timestep
            val timestep =
                if (sinusoids != null) sinusoids.input to sinusoids.of(step.timestep)
                else "timestep" to floatArrayOf(step.timestep.toFloat())
            val embedding = manifest.guidanceEmbedding ?: return mapOf(timestep)
            return mapOf(timestep, embedding.input to embedding.of(Guidance.FINENESS * (guidance.scale - 1)))
        }
    }

    private companion object {
        const val UNET = "unet"
        const val ENCODER = "text_encoder"
        const val DECODER = "vae_decoder"

        /** The decoder is opened when so many steps are left: early enough, with little time beside the U-Net. */
        const val LAST_STEPS = 3
    }
}

private fun <T> Future<T>.result(): T = try {
    get()
} catch (problem: ExecutionException) {
    throw problem.cause ?: problem
}
