package dev.msd.runtime

import kotlin.math.max
import kotlin.math.min

/** Returns [values]; throws [NoImage], which says [what] they are, where one is NaN or infinite. */
internal fun requireFinite(values: FloatArray, what: String): FloatArray {
    val wrong = values.count { !it.isFinite() }
    if (wrong == 0) return values
    throw NoImage(
        "$what has $wrong of ${values.size} values that are NaN or infinite, so no image was made; " +
            "less guidance or another scheduler may help",
    )
}

/**
 * Returns an [image] (NHWC, one row, three channels), all of its numbers finite, as `msd.run.runtime.finite` does.
 *
 * Throws [NoImage], which says [what] it is, also for one colour but for the edges, which padding changes: a decoder
 * whose numbers overflow float16 computes that, and never draws a picture so flat.
 */
internal fun requirePicture(image: FloatArray, width: Int, height: Int, what: String): FloatArray {
    requireFinite(image, what)
    val edge = max(1, min(width, height) / 8)
    val (rows, columns) = (edge until height - edge) to (edge until width - edge)
    if (rows.count() * columns.count() <= 1) return image
    val first = 3 * (edge * width + edge)
    val drawn = rows.any { y ->
        columns.any { x -> (0..2).any { image[3 * (y * width + x) + it] != image[first + it] } }
    }
    if (drawn) return image
    throw NoImage(
        "$what is one colour throughout, so no image was made; " +
            "a model converted anew, whose activations are scaled to float16, may help",
    )
}
