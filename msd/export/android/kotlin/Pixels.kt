package dev.msd.runtime

/** A picture: [argb] has one opaque colour per pixel, row by row, as Bitmap.createBitmap takes them. */
public class Picture(
    public val argb: IntArray,
    public val width: Int,
    public val height: Int,
    public val latents: FloatArray,
)

/** Returns an opaque ARGB colour for each pixel of an RGB [image] (NHWC, one row) in [-1, 1], cut and rounded. */
public fun pixels(image: FloatArray): IntArray = IntArray(image.size / 3) {
    val (red, green, blue) = listOf(level(image[3 * it]), level(image[3 * it + 1]), level(image[3 * it + 2]))
    (0xFF shl 24) or (red shl 16) or (green shl 8) or blue
}

/** Returns 0 to 255; halves go to the even number, as in NumPy. */
private fun level(value: Float): Int = Math.rint(((value / 2 + 0.5f).coerceIn(0f, 1f) * 255).toDouble()).toInt()
