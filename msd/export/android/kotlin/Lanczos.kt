package dev.msd.runtime

import kotlin.math.PI
import kotlin.math.max
import kotlin.math.min
import kotlin.math.sin

/**
 * Resamples lines of [from] levels to [to], with a Lanczos kernel whose support grows with the reduction, so that
 * nothing aliases: the numbers of Pillow's `Image.resize` for 8 bits per channel, fixed point and all.
 */
internal class Lanczos(private val from: Int, to: Int) {
    private val scale = from.toDouble() / to
    private val widening = max(scale, 1.0)
    val first: IntArray = IntArray(to) { max(0, (center(it) - LOBES * widening + 0.5).toInt()) }
    val weights: Array<IntArray> = Array(to, ::kernel)

    /** Returns the level at a [place] of the new line, 0 to 255; [old] gives the levels of the old one. */
    inline fun level(place: Int, old: (Int) -> Int): Int {
        val kernel = weights[place]
        val start = first[place]
        var sum = 1 shl (PRECISION - 1)
        for (i in kernel.indices) sum += kernel[i] * old(start + i)
        return (sum shr PRECISION).coerceIn(0, 255)
    }

    private fun center(place: Int): Double = (place + 0.5) * scale

    private fun kernel(place: Int): IntArray {
        val (center, start) = center(place) to first[place]
        val end = min(from, (center + LOBES * widening + 0.5).toInt())
        val weights = DoubleArray(end - start) { lanczos((it + start - center + 0.5) * (1 / widening)) }
        val sum = weights.sum()
        return IntArray(weights.size) { fixed(if (sum == 0.0) weights[it] else weights[it] / sum) }
    }

    companion object {
        const val PRECISION: Int = 22
        private const val LOBES = 3

        private fun fixed(weight: Double): Int = (weight * (1 shl PRECISION) + if (weight < 0) -0.5 else 0.5).toInt()

        private fun lanczos(x: Double): Double = if (x >= -LOBES && x < LOBES) sinc(x) * sinc(x / LOBES) else 0.0

        private fun sinc(x: Double): Double = if (x == 0.0) 1.0 else sin(x * PI) / (x * PI)
    }
}
