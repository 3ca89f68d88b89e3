package dev.msd.runtime

/** How one image is generated; lives on the pipeline's thread. [check] throws where it should end. */
internal class Run(
    private val manifest: Manifest,
    private val tokenizer: ClipTokenizer,
    private val networks: OpenNetworks,
    private val request: Request,
    private val schedule: Schedule,
    private val rest: () -> Long,
    private val check: () -> Unit,
) {
    private val guidance = Guidance.of(manifest, request.guidance ?: manifest.guidance)
    private val unet = manifest.file(UNET)
    private val size = manifest.latent.fold(1, Int::times)

    /** Returns the image; throws [NoGpu], and what [check] throws. */
    fun image(onProgress: OnProgress): GeneratedImage = try {
        val contexts = encoded(onProgress)
        val latents = denoised(contexts, started(onProgress), onProgress)
        decoded(DECODER, latents, onProgress)
    } finally {
        networks.release(ENCODER)
        networks.release(DECODER)
        manifest.image?.let { networks.release(it.encoder) }
        manifest.preview?.let(networks::release)
    }

    private fun encoded(onProgress: OnProgress): List<FloatArray> {
        check()
        val encoder = networks.take(ENCODER, onProgress)
        check()
        onProgress.onProgress(Progress.Encoding)
        val chunks = manifest.promptChunks
        val prompts = guidance.prompts(request.prompt, request.negativePrompt)
        val tokens = prompts.flatMap { tokenizer.chunks(it, chunks) }
        return encoder.rows(manifest.file(ENCODER), tokens.map { mapOf("tokens" to Tensor.Ints(it)) })
            .chunked(chunks, ::joined)
            .also { networks.release(ENCODER) }
    }

    private fun started(onProgress: OnProgress): Start {
        val noise = noise(request.seed, size)
        val initial = request.image ?: return Start(noise)
        check()
        val facts = manifest.factsFor(initial)
        val encoder = networks.take(facts.encoder, onProgress)
        check()
        onProgress.onProgress(Progress.Encoding)
        return ImageEncoder(encoder, manifest.file(facts.encoder), facts, request.seed, manifest.latent)
            .start(initial, noise, manifest.width)
            .also { networks.release(facts.encoder) }
    }

    private fun denoised(contexts: List<FloatArray>, start: Start, onProgress: OnProgress): FloatArray {
        check()
        val network = networks.take(UNET, onProgress)
        var latents = start.latents(schedule, request.image?.strength)
        var clean: FloatArray? = null
        schedule.steps.forEachIndexed { i, step ->
            check()
            if (i > 0 && rest() > 0) Thread.sleep(rest())
            val output = guidance.combine(network.rows(unet, rows(latents, start, contexts, step), shared(step)))
            val added = if (step.noise != 0f) noise(request.seed, size, i + 1) else null
            val (next, cleaned) = step.apply(latents, output, clean, added)
            latents = start.keep(next, schedule, i + 1)
            clean = cleaned
            onProgress.onProgress(Progress.Denoising(i + 1, schedule.steps.size, preview(i + 1, clean)))
        }
        check()
        return latents
    }

    /** Returns the image that the model expects after step [done], where one was asked for. */
    private fun preview(done: Int, clean: FloatArray?): GeneratedImage? {
        val role = manifest.preview
        if (role == null || clean == null || done == schedule.steps.size) return null
        if (request.previewEvery == 0 || done % request.previewEvery != 0) return null
        return decoded(role, clean, OnProgress {})
    }

    private fun decoded(role: String, latents: FloatArray, onProgress: OnProgress): GeneratedImage {
        val decoder = networks.take(role, onProgress)
        check()
        onProgress.onProgress(Progress.Decoding)
        val image = decoder.rows(manifest.file(role), listOf(mapOf("latent" to Tensor.Floats(latents))))
        return GeneratedImage(pixels(image[0]), manifest.width, manifest.height, latents)
    }

    private fun rows(
        latents: FloatArray,
        start: Start,
        contexts: List<FloatArray>,
        step: Step,
    ): List<Map<String, Tensor>> {
        val scaled = FloatArray(latents.size) { step.scale * latents[it] }
        val input = Tensor.Floats(start.input(scaled, size / manifest.latent.last()))
        return contexts.map { mapOf("latent" to input, "context" to Tensor.Floats(it)) }
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

    private companion object {
        const val UNET = "unet"
        const val ENCODER = "text_encoder"
        const val DECODER = "vae_decoder"
    }
}
