package dev.msd.runtime

/**
 * An image to begin with: [argb] has one colour per pixel, of exactly the manifest's width and height; opaque.
 *
 * [strength], above 0 and at most 1, says how much of it changes; the manifest has schedules for some strengths. Where
 * there is [repaint], one flag per pixel, the image is kept outside of it.
 */
public class InitialImage(
    public val argb: IntArray,
    public val strength: Double,
    public val repaint: BooleanArray? = null,
)

/**
 * How a model begins from an image: the role of the network that encodes it, the factor of its latents, whether the
 * U-Net takes the masked image beside the latents, and schedules by number of steps and strength.
 */
public class ImageFacts(
    public val encoder: String,
    public val scalingFactor: Float,
    public val inpaints: Boolean,
    public val schedules: Map<Int, Map<Double, Schedule>>,
)

/** Returns how the model begins from an image; throws [BadRequest] where it cannot, or this one does not fit. */
internal fun Manifest.factsFor(initial: InitialImage): ImageFacts {
    val facts = image ?: throw BadRequest("this model begins from no image: it was exported without an image encoder")
    for ((count, what) in listOf(initial.argb.size to "image", (initial.repaint?.size ?: width * height) to "mask")) {
        if (count != width * height) {
            throw BadRequest("the $what has $count pixels; it should have $width times $height")
        }
    }
    if (facts.inpaints && initial.repaint == null) {
        throw BadRequest("this model repaints a part of an image: give a mask")
    }
    return facts
}

/** Returns the schedule for [count] steps at a strength; throws [BadRequest] where there is none. */
internal fun ImageFacts.schedule(count: Int, strength: Double): Schedule {
    val known = schedules[count].orEmpty()
    return known[strength] ?: throw BadRequest(
        "there is no schedule for $count steps at strength $strength; there are ${known.keys.sorted().joinToString()}",
    )
}

/** Returns the pixels as float32 RGB in [-1, 1], NHWC; those to be repainted are 0 where [masked]. */
internal fun InitialImage.pixels(masked: Boolean): FloatArray {
    val rgb = FloatArray(3 * argb.size)
    for (i in argb.indices) {
        if (masked && repaint?.get(i) == true) continue
        rgb[3 * i] = unit(argb[i] shr 16)
        rgb[3 * i + 1] = unit(argb[i] shr 8)
        rgb[3 * i + 2] = unit(argb[i])
    }
    return rgb
}

private fun unit(channel: Int): Float = (channel and 0xFF) / 127.5f - 1f
