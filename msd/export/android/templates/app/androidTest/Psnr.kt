package @@{package}

import kotlin.math.log10

/**
 * Returns by how many dB the peak, 255, exceeds the root mean square of the differences of red, green and blue:
 * infinitely many for equal images. Throws IllegalArgumentException for images of different sizes.
 */
internal fun psnr(image: IntArray, reference: IntArray): Double {
    require(image.size == reference.size) {
        "an image of ${image.size} pixels cannot be compared with one of ${reference.size}"
    }
    var sum = 0.0
    for (i in image.indices) {
        for (shift in CHANNELS) {
            val difference = (image[i] shr shift and 0xFF) - (reference[i] shr shift and 0xFF)
            sum += difference * difference
        }
    }
    return 10 * log10(PEAK * PEAK * CHANNELS.size * image.size / sum)
}

private val CHANNELS = intArrayOf(0, 8, 16)
private const val PEAK = 255.0
