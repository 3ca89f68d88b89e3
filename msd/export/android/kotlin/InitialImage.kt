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
 * How a model reads an image: the value that generation begins from, null where the image only steers; whether there is
 * none without an image, or without a mask; and schedules by number of steps and strength.
 */
public class ImageFacts(
    public val initial: String?,
    public val required: Boolean,
    public val inpaints: Boolean,
    public val schedules: Map<Int, Map<Double, Schedule>>,
)

/** Returns how the model reads an image; throws [BadRequest] where it cannot, or this one does not fit. */
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

/** Returns a number of steps in words. */
internal fun counted(steps: Int): String = "$steps step${if (steps == 1) "" else "s"}"

/** Returns the schedule for [count] steps at a strength; throws [BadRequest] where there is none. */
internal fun ImageFacts.schedule(count: Int, strength: Double): Schedule {
    val known = schedules[count].orEmpty()
    return known[strength] ?: throw BadRequest(
        "there is no schedule for ${counted(count)} at strength $strength; " +
            "there are ${known.keys.sorted().joinToString()}",
    )
}

/** Returns what networks can take of the image, by the names that sources have for it. */
internal fun InitialImage.pixels(): Values {
    val mask = mask() ?: return mapOf("image" to pixels(false))
    return mapOf("image" to pixels(false), "mask" to mask, "masked image" to pixels(true))
}

/** Returns 1 for each pixel to be repainted and 0 for the others; null where there is no mask. */
internal fun InitialImage.mask(): FloatArray? =
    repaint?.let { flags -> FloatArray(flags.size) { if (flags[it]) 1f else 0f } }

/** Returns the pixels as float32 RGB in [-1, 1], NHWC; those to be repainted are 0 where [masked]. */
private fun InitialImage.pixels(masked: Boolean): FloatArray =
    rgb(argb) { masked && repaint?.get(it) == true }

/** Returns pixels as float32 RGB in [-1, 1], NHWC; those [without] are 0. */
internal fun rgb(argb: IntArray, without: (Int) -> Boolean = { false }): FloatArray {
    val rgb = FloatArray(3 * argb.size)
    for (i in argb.indices) {
        if (without(i)) continue
        rgb[3 * i] = unit(argb[i] shr 16)
        rgb[3 * i + 1] = unit(argb[i] shr 8)
        rgb[3 * i + 2] = unit(argb[i])
    }
    return rgb
}

private fun unit(channel: Int): Float = (channel and 0xFF) / 127.5f - 1f
