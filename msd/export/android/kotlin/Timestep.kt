package dev.msd.runtime

import kotlin.math.cos
import kotlin.math.sin

/** The quantities of a step of an image of [height] by [width] pixels; [guidance] as it is embedded. */
internal class Numbers(val timestep: Double, val guidance: Double, val height: Int, val width: Int) {
    /**
     * Returns the numbers of [quantity]; sizes are the original one, the corner of the crop and the target (Podell et
     * al., "SDXL", 2023, section 2.2), each height first.
     */
    fun of(quantity: String): List<Double> = when (quantity) {
        "timestep" -> listOf(timestep)
        "guidance" -> listOf(guidance)
        else -> listOf(height, width, 0, 0, height, width).map(Int::toDouble)
    }
}

/** Returns what an input of [width] elements takes: numbers, or the sinusoids of each, one after the other. */
internal fun Source.input(width: Int, numbers: Numbers): FloatArray {
    val values = numbers.of(of)
    if (kind == "numbers") return FloatArray(values.size) { values[it].toFloat() }
    return joined(values.map { sinusoids(it, width / values.size) })
}

/**
 * Returns float32 sinusoids of a number [t], half cosines, half sines; the last of [width] is 0 if it is odd.
 *
 * The angle is rounded to float32, as where the network was trained; its cosine is taken in float64.
 */
internal fun Source.sinusoids(t: Double, width: Int): FloatArray {
    val angles = frequencies.map { (t.toFloat() * it).toDouble() }
    val cosines = angles.map { cos(it).toFloat() }
    val sines = angles.map { sin(it).toFloat() }
    val waves = if (cosineFirst) cosines + sines else sines + cosines
    return waves.toFloatArray().copyOf(width)
}
