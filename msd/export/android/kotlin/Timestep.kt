package dev.msd.runtime

import kotlin.math.cos
import kotlin.math.sin

/**
 * Returns what the U-Net takes for a number [t]: float32 sinusoids, half cosines, half sines.
 *
 * The angle is rounded to float32, as where the network was trained; its cosine is taken in float64.
 */
internal fun Sinusoids.of(t: Double): FloatArray {
    val angles = frequencies.map { (t.toFloat() * it).toDouble() }
    val cosines = angles.map { cos(it).toFloat() }
    val sines = angles.map { sin(it).toFloat() }
    val waves = if (cosineFirst) cosines + sines else sines + cosines
    return waves.toFloatArray().copyOf(width)
}
