package dev.msd.runtime

import kotlin.math.exp

/**
 * The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.
 *
 * Image to image after Meng et al., "SDEdit" (2021). Inpainting by a network that takes the mask, or by blending
 * latents in every step, where it [blends]. [clean] are the latents of the image; [mask] is 1 where it is repainted,
 * one number per cell.
 */
internal class Start(
    private val noise: FloatArray,
    private val clean: FloatArray? = null,
    private val mask: FloatArray? = null,
    private val blends: Boolean = true,
) {
    /** Returns the latents before the first step; a mask at full strength starts from noise alone. */
    fun latents(schedule: Schedule, strength: Double?): FloatArray {
        val fromNoise = clean == null || (mask != null && strength == 1.0)
        return if (fromNoise) FloatArray(noise.size) { noise[it] * schedule.start } else noised(schedule, 0, clean)
    }

    /** Returns the latents before step [index] with those that the mask keeps put back, by blending. */
    fun keep(latents: FloatArray, schedule: Schedule, index: Int): FloatArray {
        if (clean == null || mask == null || !blends) return latents
        val known = noised(schedule, index, clean)
        val channels = latents.size / mask.size
        return FloatArray(latents.size) {
            val repainted = mask[it / channels]
            (1 - repainted) * known[it] + repainted * latents[it]
        }
    }

    private fun noised(schedule: Schedule, index: Int, clean: FloatArray): FloatArray {
        val step = schedule.steps.getOrNull(index) ?: return clean
        return FloatArray(clean.size) { step.signal * clean[it] + step.sigma * noise[it] }
    }
}

/** Returns the start of an image from [noise], and from the [values] of an [initial] one. */
internal fun Manifest.start(initial: InitialImage?, noise: FloatArray, values: Values): Start {
    if (initial == null) return Start(noise)
    val facts = factsFor(initial)
    val mask = initial.mask()?.let { atCells(it, latent) }
    return Start(noise, facts.initial?.let(values::get), mask, !facts.inpaints)
}

/**
 * Returns what the calls of images compute of one; [run] returns the outputs of a call's network. Throws [NoImage]
 * where a number is not finite.
 */
internal fun Manifest.encoded(initial: InitialImage, seed: Long, run: (Call, Map<String, Tensor>) -> Values): Values {
    val facts = factsFor(initial)
    val (pixels, values) = initial.pixels() to HashMap<String, FloatArray>()
    for (call in wiring.ofImages) {
        val begins = call.outputs.any { it.value == facts.initial }
        if (call.sources.any { it.kind == "pixels" && it.of !in pixels }) continue
        if (begins && facts.inpaints && initial.strength == 1.0) continue
        val (file, of) = file(call.component) to call.sources[0].of
        val given = Given(this, pixels = pixels, values = values, numbers = Numbers(0.0, 0.0, height, width))
        val outputs =
            if (call.encodes) encoded(call, pixels.getValue(of)) { run(call, it) }
            else run(call, call.row(file, given))
        for (output in call.outputs) {
            val latents = latentsOf(output, outputs.getValue(output.tensor), seed, STREAMS[of] ?: 0)
            values[output.value] = requireFinite(latents, "the output of the ${file.title}")
        }
    }
    return values
}

/** Returns latents of what was computed: sampled, where that are the moments of a distribution. */
private fun Manifest.latentsOf(output: Output, encoded: FloatArray, seed: Long, stream: Int): FloatArray {
    if (output.kind == "latents") return FloatArray(encoded.size) { output.factor * encoded[it] }
    if (output.kind != "moments") return encoded
    val channels = latent[3]
    val noise = posteriorNoise(seed, encoded.size / 2, stream)
    return FloatArray(encoded.size / 2) {
        val at = it / channels * 2 * channels + it % channels
        output.factor * (encoded[at] + exp(encoded[at + channels] / 2) * noise[it])
    }
}

/** The stream of a seed's noise that latents are sampled with, by the pixels they are of. */
private val STREAMS = mapOf("image" to 1, "masked image" to 2)
