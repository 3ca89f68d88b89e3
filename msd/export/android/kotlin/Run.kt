package dev.msd.runtime

/** How one image is generated, as the manifest's calls say; lives on the pipeline's thread. [check] may end it. */
internal class Run(
    private val manifest: Manifest,
    private val tokenizers: Map<String, ClipTokenizer>,
    private val networks: OpenNetworks,
    private val request: Request,
    private val schedule: Schedule,
    private val rest: () -> Long,
    private val check: () -> Unit,
) {
    private val wiring = manifest.wiring
    private val guidance = Guidance.of(manifest, request.guidance ?: manifest.guidance)
    private val size = manifest.latent.fold(1, Int::times)

    /** The calls of every step: of ControlNets, those that steer this image. */
    private val steps = wiring.steps.filter { call ->
        call.control.isEmpty() || request.controls.any { it.name == call.control }
    }

    /** Returns the image; throws [NoGpu], and what [check] throws. */
    fun image(onProgress: OnProgress): GeneratedImage = try {
        val prompts = encodedPrompts(onProgress)
        val ofImage = encodedImage(onProgress)
        val start = manifest.start(request.image, noise(request.seed, size), ofImage)
        val latents = denoised(prompts.map { ofImage + it }, start, onProgress)
        val image = decoded(wiring.decoder, latents, onProgress) { image, what ->
            requirePicture(image, manifest.width, manifest.height, what)
        }
        enlarged(image, onProgress)
    } finally {
        val stays = wiring.steps.map(Call::component).toSet()
        manifest.files.map(ModelFile::role).filterNot(stays::contains).forEach(networks::release)
    }

    /** Returns what the calls of prompts compute for each row. */
    private fun encodedPrompts(onProgress: OnProgress): List<Values> {
        val chunks = manifest.promptChunks
        val texts = guidance.prompts(request.prompt, request.negativePrompt)
        val tokens = texts.flatMap { tokensOf(it, chunks) }
        var known = tokens.map { emptyMap<String, FloatArray>() }
        for (call in wiring.ofPrompts) {
            val (network, file) = taken(call, onProgress) to manifest.file(call.component)
            onProgress.onProgress(Progress.Encoding)
            val rows = known.mapIndexed { i, values -> call.row(file, Given(manifest, tokens[i], values = values)) }
            val outputs = network.rows(file, rows)
            known = known.mapIndexed { i, values -> values + finite(file, call.named(outputs[i])) }
            networks.release(call.component)
        }
        return known.chunked(chunks).mapIndexed { i, values ->
            passedOn(values, absent = i < texts.size - 1 && texts[i].isEmpty())
        }
    }

    /** Returns the tokens of each chunk of a text, by tokenizer. */
    private fun tokensOf(text: String, chunks: Int): List<Map<String, IntArray>> {
        val all = tokenizers.mapValues { it.value.chunks(text, chunks) }
        return List(chunks) { chunk -> all.mapValues { it.value[chunk] } }
    }

    /** Returns what later calls take of a text's chunks: hidden states follow each other, a vector is the first's. */
    private fun passedOn(chunks: List<Values>, absent: Boolean): Values {
        val outputs = wiring.ofPrompts.flatMap(Call::outputs)
        return outputs.associate { output ->
            val all = chunks.map { it.getValue(output.value) }
            val passed = if (output.kind == "vector") all[0] else joined(all)
            output.value to if (absent && output.zeroIfAbsent) FloatArray(passed.size) else passed
        }
    }

    private fun encodedImage(onProgress: OnProgress): Values {
        val initial = request.image ?: return emptyMap()
        val values = manifest.encoded(initial, request.seed) { call, inputs ->
            val network = taken(call, onProgress)
            onProgress.onProgress(Progress.Encoding)
            network.rows(manifest.file(call.component), listOf(inputs))[0]
        }
        wiring.ofImages.forEach { networks.release(it.component) }
        return values
    }

    private fun denoised(values: List<Values>, start: Start, onProgress: OnProgress): FloatArray {
        for (call in steps) taken(call, onProgress)
        val denoiser = manifest.file(wiring.denoiser.component).title
        val pixels = request.image?.pixels().orEmpty()
        var latents = start.latents(schedule, request.image?.strength)
        var memory: StepMemory? = null
        schedule.steps.forEachIndexed { i, step ->
            check()
            if (i > 0 && rest() > 0) Thread.sleep(rest())
            val place = Place(i, schedule.steps.size)
            val during = "step ${i + 1} of ${schedule.steps.size}"
            val predicted = guidance.combine(predicted(latents, step, place, values, pixels, onProgress))
            val output = requireFinite(predicted, "the output of the $denoiser in $during")
            val added = if (step.takesNoise) noise(request.seed, size, i + 1) else null
            val (next, left) = step.apply(latents, output, memory, added)
            latents = requireFinite(start.keep(next, schedule, i + 1), "the latents after $during")
            memory = left
            onProgress.onProgress(Progress.Denoising(i + 1, schedule.steps.size, preview(i + 1, left.clean)))
        }
        check()
        return latents
    }

    /** Returns the prediction of each row, by the calls of a step. */
    private fun predicted(
        latents: FloatArray,
        step: Step,
        place: Place,
        rows: List<Values>,
        pixels: Values,
        onProgress: OnProgress,
    ): List<FloatArray> {
        val numbers = Numbers(step.timestep, guidance.number, manifest.height, manifest.width)
        val known = rows.toMutableList()
        for (call in steps) {
            val file = manifest.file(call.component)
            val steering = request.steering(call, file, place, rows.size)
            val given = steering.mapIndexedNotNull { i, steers ->
                steers?.let {
                    Given(manifest, emptyMap(), latents, step.scale, pixels, known[i], numbers, it.hints, it.scales)
                }
            }
            if (given.isEmpty()) continue
            val network = networks.take(call.component, onProgress)
            val outputs = network.rows(file, given.map { call.row(file, it) }, call.shared(file, given[0]))
            val running = known.indices.filter { steering[it] != null }
            running.forEachIndexed { i, row -> known[row] += call.named(outputs[i]) }
        }
        val prediction = checkNotNull(wiring.denoiser.computes("prediction"))
        return known.map { it.getValue(prediction.value) }
    }

    /** Returns the image that the model expects after step [done], where one was asked for. */
    private fun preview(done: Int, clean: FloatArray): GeneratedImage? {
        val role = manifest.preview
        if (role == null || done == schedule.steps.size) return null
        if (request.previewEvery == 0 || done % request.previewEvery != 0) return null
        return decoded(wiring.decoderOf(role), clean, OnProgress {}, ::requireFinite)
    }

    /** Returns the image of latents, whose numbers [require] is given with what they are. */
    private fun decoded(
        call: Call,
        latents: FloatArray,
        onProgress: OnProgress,
        require: (FloatArray, String) -> FloatArray,
    ): GeneratedImage {
        val (decoder, file) = taken(call, onProgress) to manifest.file(call.component)
        onProgress.onProgress(Progress.Decoding)
        val image = manifest.decoded(call, latents) { inputs ->
            check()
            decoder.rows(file, listOf(inputs))[0]
        }
        val initial = request.image.takeIf { request.paste }
        val made = pixels(require(image, "the image of the ${file.title}"))
        val argb = initial?.paste(made, manifest.width) ?: made
        return GeneratedImage(argb, manifest.width, manifest.height, latents)
    }

    /** Returns the image, enlarged where the request says so. */
    private fun enlarged(image: GeneratedImage, onProgress: OnProgress): GeneratedImage {
        val upscaler = manifest.upscalerFor(request) ?: return image
        networks.release(wiring.decoder.component)
        return upscaler.enlarged(taken(upscaler.role, onProgress), manifest.file(upscaler.role), image) { tile, tiles ->
            check()
            onProgress.onProgress(Progress.Enlarging(tile, tiles))
        }
    }

    private fun taken(call: Call, onProgress: OnProgress): Network = taken(call.component, onProgress)

    private fun taken(role: String, onProgress: OnProgress): Network {
        check()
        return networks.take(role, onProgress).also { check() }
    }
}

/** Returns a call's outputs by the names of values. */
private fun Call.named(found: Values): Values = outputs.associate { it.value to found.getValue(it.tensor) }

/** Returns what a network computed; throws [NoImage] where a number is not finite. */
private fun finite(file: ModelFile, found: Values): Values =
    found.onEach { (_, values) -> requireFinite(values, "the output of the ${file.title}") }
