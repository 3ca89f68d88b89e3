package dev.msd.runtime

import kotlin.math.max
import kotlin.math.min
import kotlin.math.round

/** The pixels of an image, which are read row by row: those of a photo take more memory than most apps have. */
public interface Photo {
    public val width: Int
    public val height: Int

    /** Fills [into] with the colours of row [y] from the column [left] on: ARGB, not premultiplied. */
    public fun row(y: Int, left: Int, into: IntArray)
}

/**
 * Returns the centre of a photo at the model's size for an [InitialImage], as `msd generate --image` crops and resizes
 * it: Lanczos resampling, transparent pixels over white.
 */
public fun Manifest.fitted(photo: Photo): IntArray {
    val scale = min(photo.width.toDouble() / width, photo.height.toDouble() / height)
    val (across, down) = max(1, round(width * scale).toInt()) to max(1, round(height * scale).toInt())
    val (left, top) = (photo.width - across) / 2 to (photo.height - down) / 2
    val (columns, rows) = Lanczos(across, width) to Lanczos(down, height)
    val line = IntArray(across)
    val narrowed = List(down) { y ->
        photo.row(top + y, left, line)
        narrowed(line, columns, width)
    }
    return IntArray(width * height) { shortened(narrowed, rows, it / width, it % width) }
}

/** Returns the levels of red, green and blue of a row of [width] pixels. */
private fun narrowed(line: IntArray, columns: Lanczos, width: Int): ByteArray {
    for (i in line.indices) line[i] = overWhite(line[i])
    return ByteArray(3 * width) { at ->
        val shift = SHIFTS[at % 3]
        columns.level(at / 3) { line[it] shr shift and 0xFF }.toByte()
    }
}

/** Returns the colour in row [y] and column [x]. */
private fun shortened(narrowed: List<ByteArray>, rows: Lanczos, y: Int, x: Int): Int =
    SHIFTS.foldIndexed(OPAQUE) { channel, color, shift ->
        color or (rows.level(y) { narrowed[it][3 * x + channel].toInt() and 0xFF } shl shift)
    }

/** Returns an opaque colour, with the integers of Pillow's `alpha_composite`. */
private fun overWhite(argb: Int): Int {
    val alpha = argb ushr 24
    if (alpha == 0xFF) return argb
    return SHIFTS.fold(OPAQUE) { color, shift ->
        val sum = ((argb shr shift and 0xFF) * alpha + 0xFF * (0xFF - alpha)) * 128 + 0x4000
        color or (((sum shr 8) + sum shr 8 shr 7) shl shift)
    }
}
