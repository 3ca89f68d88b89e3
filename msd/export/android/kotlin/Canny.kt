package dev.msd.runtime

import kotlin.math.abs
import kotlin.math.exp
import kotlin.math.max
import kotlin.math.min
import kotlin.math.sqrt

/**
 * Returns the edges of a picture of the model's size, white on black, for a [Control] whose ControlNet expects them, as
 * `msd generate --from-photo` finds them: Canny's, "A Computational Approach to Edge Detection", 1986.
 */
public fun Manifest.edges(argb: IntArray): IntArray {
    if (argb.size != width * height) throw BadRequest("the picture should have $width times $height pixels")
    val smooth = blurred(Plane(brightness(argb), width))
    val across = smooth.filtered(SLOPE, false).filtered(SMOOTH, true)
    val down = smooth.filtered(SLOPE, true).filtered(SMOOTH, false)
    val edges = connected(thinned(across, down))
    return IntArray(argb.size) { if (edges[it]) WHITE else OPAQUE }
}

/** Values of [width] columns. */
private class Plane(val values: FloatArray, val width: Int) {
    val height: Int get() = values.size / width
}

private fun brightness(argb: IntArray): FloatArray {
    val rgb = rgb(argb)
    return FloatArray(argb.size) { i ->
        (0..2).map { SHARES[it] * ((rgb[3 * i + it] + 1) / 2) }.reduce(Float::plus)
    }
}

/** Returns the shares of a pixel and its neighbours along a line, up to four deviations away. */
private fun gaussian(deviation: Double): DoubleArray {
    val radius = (4 * deviation + 0.5).toInt()
    val heights = DoubleArray(2 * radius + 1) { exp(-0.5 * ((it - radius) / deviation).let { x -> x * x }) }
    val sum = heights.sum()
    return DoubleArray(heights.size) { heights[it] / sum }
}

/** Returns a blurred plane, in which what lies outside does not count. */
private fun blurred(plane: Plane): Plane {
    fun blur(plane: Plane) = plane.filtered(GAUSSIAN, true, black = true).filtered(GAUSSIAN, false, black = true).values
    val inside = blur(Plane(FloatArray(plane.values.size) { 1f }, plane.width))
    val found = blur(plane)
    return Plane(FloatArray(found.size) { found[it] / (inside[it] + EPSILON) }, plane.width)
}

/** Returns sums of neighbours, weighted, across or [down]; what lies outside is 0 where [black], else as the border. */
private fun Plane.filtered(weights: DoubleArray, down: Boolean, black: Boolean = false): Plane {
    val radius = weights.size / 2
    val (step, last) = if (down) width to height - 1 else 1 to width - 1
    return Plane(
        FloatArray(values.size) { i ->
            val place = if (down) i / width else i % width
            var sum = 0.0
            for (k in -radius..radius) {
                val within = min(max(place + k, 0), last)
                if (within == place + k || !black) sum += weights[k + radius] * values[i + (within - place) * step]
            }
            sum.toFloat()
        },
        width,
    )
}

/** Returns the slopes that are no smaller than those on either side of the edge, 0 elsewhere and where they are low. */
private fun thinned(across: Plane, down: Plane): Plane {
    val width = across.width
    val steep = FloatArray(across.values.size) {
        val (x, y) = across.values[it] to down.values[it]
        sqrt(y * y + x * x)
    }
    val kept = FloatArray(steep.size)
    for (y in 1 until across.height - 1) {
        for (i in y * width + 1 until (y + 1) * width - 1) {
            if (steep[i] >= LOW && leads(steep, i, across.values[i], down.values[i], width)) kept[i] = steep[i]
        }
    }
    return Plane(kept, width)
}

/** Returns whether the slope at [i] is no smaller than those beside it, in its own direction ([x], [y]). */
private fun leads(steep: FloatArray, i: Int, x: Float, y: Float, width: Int): Boolean {
    val (right, below) = (if (x < 0) -1 else 1) to (if (y < 0) -width else width)
    val (wide, tall) = abs(x) to abs(y)
    val straight = if (tall > wide) below else right
    val slant = min(wide, tall) / max(wide, tall)
    return intArrayOf(1, -1).all { sign ->
        steep[i + sign * (right + below)] * slant + steep[i + sign * straight] * (1 - slant) <= steep[i]
    }
}

/** Returns whether each pixel is joined to a high slope by slopes; those of the border are 0. */
private fun connected(slopes: Plane): BooleanArray {
    val edges = BooleanArray(slopes.values.size) { slopes.values[it] >= HIGH }
    val open = ArrayDeque(edges.indices.filter { edges[it] })
    while (open.isNotEmpty()) {
        val i = open.removeLast()
        for (row in intArrayOf(-slopes.width, 0, slopes.width)) {
            for (at in i + row - 1..i + row + 1) {
                if (edges[at] || slopes.values[at] == 0f) continue
                edges[at] = true
                open.addLast(at)
            }
        }
    }
    return edges
}

/** Of red, green and blue in brightness. */
private val SHARES = floatArrayOf(0.2125f, 0.7154f, 0.0721f)

/** Of brightness from 0 to 1: the Gaussian's standard deviation is in pixels, and the thresholds are of slopes. */
private val GAUSSIAN = gaussian(1.4)
private const val LOW = 0.1f
private const val HIGH = 0.2f

private val SLOPE = doubleArrayOf(-1.0, 0.0, 1.0)
private val SMOOTH = doubleArrayOf(1.0, 2.0, 1.0)

/** That of Float. */
private const val EPSILON = 1.1920929e-7f
private const val WHITE = -1
