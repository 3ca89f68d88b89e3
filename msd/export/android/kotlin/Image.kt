package dev.msd.runtime

/** An image: [argb] has one opaque colour per pixel, row by row, as Bitmap.createBitmap takes them. */
public class GeneratedImage(
    public val argb: IntArray,
    public val width: Int,
    public val height: Int,
    public val latents: FloatArray,
)

/** Returns an opaque ARGB colour for each pixel of an RGB [image] (NHWC, one row) in [-1, 1], clipped and rounded. */
public fun pixels(image: FloatArray): IntArray {
    val argb = IntArray(image.size / 3)
    var at = 0
    for (i in argb.indices) {
        argb[i] = OPAQUE or (level(image[at]) shl 16) or (level(image[at + 1]) shl 8) or level(image[at + 2])
        at += 3
    }
    return argb
}

/** Where red, green and blue are in an ARGB colour, in bits. */
internal val SHIFTS: IntArray = intArrayOf(16, 8, 0)
internal const val OPAQUE: Int = 0xFF shl 24

/** Returns 0 to 255; halves go to the even number, as in NumPy. */
private fun level(value: Float): Int = Math.rint(((value / 2 + 0.5f).coerceIn(0f, 1f) * 255).toDouble()).toInt()
