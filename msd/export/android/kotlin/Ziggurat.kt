package dev.msd.runtime

import kotlin.math.exp
import kotlin.math.ln
import kotlin.math.sqrt

/**
 * Normal numbers in float32, those that NumPy's `standard_normal` makes of the same bits: Marsaglia and Tsang,
 * "The Ziggurat Method for Generating Random Variables" (2000), with 256 layers.
 */
internal class Ziggurat(private val bits: Bits) {
    fun next(): Float {
        while (true) {
            val drawn = bits.next()
            val layer = drawn and 0xFF
            val distance = drawn ushr 9
            val x = distance * WIDTH[layer] * if (drawn and 0x100 != 0) -1 else 1
            if (distance < INSIDE[layer]) return x
            if (layer == 0) return tail(negative = drawn and 0x20000 != 0)
            val height = (DENSITY[layer - 1] - DENSITY[layer]) * uniform() + DENSITY[layer]
            if (height < exp(-0.5 * x * x)) return x
        }
    }

    /** Returns a number beyond the last layer. */
    private fun tail(negative: Boolean): Float {
        while (true) {
            val x = -(1 / EDGE).toFloat() * log1p(-uniform())
            val y = -log1p(-uniform())
            if (y + y > x * x) return if (negative) -(EDGE.toFloat() + x) else EDGE.toFloat() + x
        }
    }

    /** Returns a number of 24 bits in [0, 1). */
    private fun uniform(): Float = (bits.next() ushr 8) * (1f / (1 shl 24))

    companion object {
        private const val LAYERS = 256
        private const val SCALE = (1 shl 23).toDouble()

        /** Where the last layer ends, and the area that each layer has. */
        private const val EDGE = 3.6541528853610088
        private const val AREA = 0.004928673233974658

        private val edges: DoubleArray = DoubleArray(LAYERS).also {
            it[LAYERS - 1] = EDGE
            for (i in LAYERS - 2 downTo 1) it[i] = sqrt(-2 * ln(AREA / it[i + 1] + density(it[i + 1])))
        }

        /** For each layer: how wide it is, per unit of distance; which distances are inside; how high it begins. */
        val WIDTH: FloatArray = FloatArray(LAYERS) { (outer(it) / SCALE).toFloat() }
        val INSIDE: IntArray = IntArray(LAYERS) { Math.rint(inner(it) / outer(it) * SCALE).toInt() }
        val DENSITY: FloatArray = FloatArray(LAYERS) { density(edges[it]).toFloat() }

        /** The lowest layer, 0, holds the tail too: as a box it would be wider than its edge. */
        private fun outer(layer: Int) = if (layer == 0) AREA / density(EDGE) else edges[layer]

        private fun inner(layer: Int) = if (layer == 0) EDGE else edges[layer - 1]

        private fun density(x: Double) = exp(-0.5 * x * x)
    }
}
