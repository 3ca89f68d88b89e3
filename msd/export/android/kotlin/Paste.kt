package dev.msd.runtime

import kotlin.math.max
import kotlin.math.min

/** Pixels from what is kept to where nothing of the original is left. */
private const val FEATHER = 4

/**
 * Returns the colours of a [generated] image with those that the mask keeps in their place, with a soft edge in the
 * repainted part, as `msd.run.runtime.paste` does. Without a mask, the result is [generated].
 */
internal fun InitialImage.paste(generated: IntArray, width: Int): IntArray {
    val depths = depths(repaint ?: return generated, width)
    return IntArray(generated.size) { mixed(generated[it], argb[it], depths[it]) }
}

private fun mixed(generated: Int, kept: Int, depth: Int): Int = SHIFTS.fold(OPAQUE) { color, shift ->
    val sum = depth * (generated shr shift and 0xFF) + (FEATHER - depth) * (kept shr shift and 0xFF)
    color or ((sum + FEATHER / 2) / FEATHER shl shift)
}

/**
 * Returns how far each pixel of a mask is from what it keeps, at most [FEATHER]. A diagonal neighbour is one pixel
 * away; what lies beyond the image's edge is not kept.
 */
private fun depths(repaint: BooleanArray, width: Int): IntArray {
    val depths = IntArray(repaint.size)
    var inside = repaint
    for (depth in 1..FEATHER) {
        for (i in depths.indices) if (inside[i]) depths[i] = depth
        inside = eroded(inside, width)
    }
    return depths
}

/** Returns the pixels that are inside with all of their neighbours. */
private fun eroded(inside: BooleanArray, width: Int): BooleanArray {
    val (last, bottom) = width - 1 to inside.size / width - 1
    return BooleanArray(inside.size) { at ->
        val (x, y) = at % width to at / width
        val columns = max(x - 1, 0)..min(x + 1, last)
        inside[at] && (max(y - 1, 0)..min(y + 1, bottom)).all { row -> columns.all { inside[row * width + it] } }
    }
}
