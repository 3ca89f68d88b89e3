package dev.msd.runtime

import kotlin.math.exp

/**
 * The latents that denoising starts from: noise, or an image with noise over it, and what a mask keeps of it.
 *
 * Image to image after Meng et al., "SDEdit" (2021). Inpainting by a U-Net that takes the mask and the masked image,
 * or by blending latents in every step. [clean] are the latents of the image; [mask] is 1 where it is repainted, one
 * number per cell; [condition] is what the U-Net takes beside the latents of each cell.
 */
internal class Start(
    private val noise: FloatArray,
    private val clean: FloatArray? = null,
    private val mask: FloatArray? = null,
    private val condition: FloatArray? = null,
) {
    /** Returns the latents before the first step; a mask at full strength starts from noise alone. */
    fun latents(schedule: Schedule, strength: Double?): FloatArray {
        val fromNoise = clean == null || (mask != null && strength == 1.0)
        return if (fromNoise) FloatArray(noise.size) { noise[it] * schedule.start } else noised(schedule, 0, clean)
    }

    /** Returns the latents before step [index] with those that the mask keeps put back, by blending. */
    fun keep(latents: FloatArray, schedule: Schedule, index: Int): FloatArray {
        if (clean == null || mask == null || condition != null) return latents
        val known = noised(schedule, index, clean)
        val channels = latents.size / mask.size
        return FloatArray(latents.size) {
            val repainted = mask[it / channels]
            (1 - repainted) * known[it] + repainted * latents[it]
        }
    }

    /** Returns the U-Net's input: [scaled] latents, and for each cell what it takes beside them. */
    fun input(scaled: FloatArray, cells: Int): FloatArray {
        if (condition == null) return scaled
        val (own, further) = scaled.size / cells to condition.size / cells
        val input = FloatArray(scaled.size + condition.size)
        for (cell in 0 until cells) {
            scaled.copyInto(input, cell * (own + further), cell * own, (cell + 1) * own)
            condition.copyInto(input, cell * (own + further) + own, cell * further, (cell + 1) * further)
        }
        return input
    }

    private fun noised(schedule: Schedule, index: Int, clean: FloatArray): FloatArray {
        val step = schedule.steps.getOrNull(index) ?: return clean
        return FloatArray(clean.size) { step.signal * clean[it] + step.sigma * noise[it] }
    }
}

/** Encodes images; lives on the pipeline's thread. [shape] is that of the latents, NHWC. */
internal class ImageEncoder(
    private val network: Network,
    private val file: ModelFile,
    private val facts: ImageFacts,
    private val seed: Long,
    private val shape: IntArray,
) {
    /** Returns the start of an image from [initial] and [noise]. */
    fun start(initial: InitialImage, noise: FloatArray, width: Int): Start {
        val mask = initial.repaint?.let { cells(it, width) }
        if (mask == null || !facts.inpaints) return Start(noise, encode(initial.pixels(false), IMAGE), mask)
        val clean = if (initial.strength == 1.0) null else encode(initial.pixels(false), IMAGE)
        val masked = encode(initial.pixels(true), MASKED)
        val channels = masked.size / mask.size
        val condition = FloatArray(masked.size + mask.size) {
            val (cell, channel) = it / (channels + 1) to it % (channels + 1)
            if (channel == 0) mask[cell] else masked[cell * channels + channel - 1]
        }
        return Start(noise, clean, mask, condition)
    }

    /** Returns the mask of the cells: that of the pixel at the top left of each. */
    private fun cells(repaint: BooleanArray, width: Int): FloatArray {
        val (rows, columns) = shape[1] to shape[2]
        val cell = width / columns
        return FloatArray(rows * columns) { if (repaint[it / columns * cell * width + it % columns * cell]) 1f else 0f }
    }

    /** Returns the latents of pixels: sampled, where the network computes the moments of a distribution. */
    private fun encode(pixels: FloatArray, stream: Int): FloatArray {
        val encoded = network.rows(file, listOf(mapOf("image" to Tensor.Floats(pixels))))[0]
        if (file.outputs[0].name != "moments") return FloatArray(encoded.size) { facts.scalingFactor * encoded[it] }
        val channels = shape[3]
        val noise = posteriorNoise(seed, encoded.size / 2, stream)
        return FloatArray(encoded.size / 2) {
            val at = it / channels * 2 * channels + it % channels
            facts.scalingFactor * (encoded[at] + exp(encoded[at + channels] / 2) * noise[it])
        }
    }

    private companion object {
        const val IMAGE = 1
        const val MASKED = 2
    }
}
