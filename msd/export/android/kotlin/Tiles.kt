package dev.msd.runtime

import kotlin.math.max

/**
 * Tiles of [rows] by [columns] cells, of which neighbours share at least [overlap]. They begin at multiples of
 * [multiple], which divides the tile and all that is tiled.
 */
public class Tiling(
    public val rows: Int,
    public val columns: Int,
    public val overlap: Int,
    public val multiple: Int = 1,
)

/** What is tiled: [rows] by [columns] cells, of each of which a network computes [scale] by [scale] of [channels]. */
internal class Tiled(val rows: Int, val columns: Int, val scale: Int, val channels: Int)

/** A tile along one axis: where it begins, and the share of each of its cells, from 0 to 1. */
internal class Stretch(val start: Int, val shares: FloatArray)

/** Returns the cells along a side of [size] that tiles of [tile] cover: whole multiples, and no less than a tile. */
internal fun covered(size: Int, tile: Int, multiple: Int): Int = max((size + multiple - 1) / multiple * multiple, tile)

/**
 * Returns the tiles of [tile] cells that cover [size], which is not smaller, in order, as `msd.run.runtime.tiles` does:
 * one fades into the next over half of [overlap].
 */
internal fun spans(size: Int, tile: Int, overlap: Int, multiple: Int = 1): List<Stretch> {
    val step = tile - overlap
    val count = max(1, (size - overlap + step - 1) / step)
    val starts = List(count) { (size - tile) * it / max(1, count - 1) / multiple * multiple }
    val middles = starts.zipWithNext { last, start -> (start + last + tile) / 2f }
    val length = max(1f, overlap / 2f)
    return starts.mapIndexed { i, start ->
        val (before, after) = middles.getOrNull(i - 1) to middles.getOrNull(i)
        val shares = FloatArray(tile) {
            val cell = start + it + 0.5f
            rise(cell, before, length, 1f) - rise(cell, after, length, 0f)
        }
        Stretch(start, shares)
    }
}

/** Returns a ramp from 0 to 1 of [length] cells around [middle]; [without] where there is none. */
private fun rise(cell: Float, middle: Float?, length: Float, without: Float): Float =
    if (middle == null) without else ((cell - middle) / length + 0.5f).coerceIn(0f, 1f)

/** How many tiles cover [whole]. */
internal fun Tiling.count(whole: Tiled): Int =
    spans(whole.rows, rows, overlap, multiple).size * spans(whole.columns, columns, overlap, multiple).size

/**
 * Yields what [run] computes of tiles, which it is given the top and the left of, joined without a seam: whole rows of
 * numbers, from above, as many at once as no further tile reaches. A row of tiles is in memory at a time.
 */
internal fun Tiling.joinedRows(whole: Tiled, run: (Int, Int) -> FloatArray): Sequence<FloatArray> = sequence {
    val scale = whole.scale
    val down = spans(scale * whole.rows, scale * rows, scale * overlap, scale * multiple)
    val across = spans(scale * whole.columns, scale * columns, scale * overlap, scale * multiple)
    val line = scale * whole.columns * whole.channels
    var ahead = FloatArray(0)
    down.forEachIndexed { i, span ->
        val strip = strip(whole, span, across) { left -> run(span.start / scale, left) }
        for (at in ahead.indices) strip[at] += ahead[at]
        val done = if (i + 1 < down.size) (down[i + 1].start - span.start) * line else strip.size
        yield(strip.copyOf(done))
        ahead = strip.copyOfRange(done, strip.size)
    }
}

/** Returns a row of tiles, joined, times the shares of its rows. */
private fun strip(whole: Tiled, down: Stretch, across: List<Stretch>, run: (Int) -> FloatArray): FloatArray {
    val channels = whole.channels
    val line = whole.scale * whole.columns * channels
    val strip = FloatArray(down.shares.size * line)
    for (span in across) {
        val tile = run(span.start / whole.scale)
        val width = span.shares.size * channels
        for (row in down.shares.indices) {
            val first = row * line + span.start * channels
            for (at in 0 until width) strip[first + at] += span.shares[at / channels] * tile[row * width + at]
        }
    }
    for (at in strip.indices) strip[at] *= down.shares[at / line]
    return strip
}
