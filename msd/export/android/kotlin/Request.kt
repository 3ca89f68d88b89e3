package dev.msd.runtime

/**
 * One image to generate. [steps] are those of the manifest's first schedule where they are null, and [guidance] is the
 * manifest's. The negative prompt needs guidance above 1. After every [previewEvery] steps there is a preview, if the
 * manifest names a network for it; 0 means none. With [image], generation begins from it; what its mask keeps is pasted
 * back over the result and the previews, unless [paste] is false. ControlNets steer by the pictures of [controls]; with
 * [guess], although the prompt does not describe them. The model's upscaler enlarges the image [upscale] times, its own
 * scale, where that is not null.
 */
public class Request(
    public val prompt: String,
    public val negativePrompt: String = "",
    public val seed: Long = 0,
    public val steps: Int? = null,
    public val guidance: Double? = null,
    public val previewEvery: Int = 0,
    public val image: InitialImage? = null,
    public val paste: Boolean = true,
    public val controls: List<Control> = emptyList(),
    public val guess: Boolean = false,
    public val upscale: Int? = null,
)

/** Returns the schedule of a request; throws [BadRequest] for what this model cannot do. */
internal fun Manifest.scheduleOf(request: Request): Schedule {
    if (request.seed < 0) throw BadRequest("the seed ${request.seed} is negative; it should be 0 or more")
    if (request.previewEvery < 0) throw BadRequest("previews after every ${request.previewEvery} steps are impossible")
    if (!request.paste && request.image?.repaint == null) {
        throw BadRequest("without a mask no pixels are pasted back: leave out paste = false")
    }
    requireControls(request)
    upscalerFor(request)
    val steps = request.steps ?: schedules.keys.first()
    val schedule = schedules[steps] ?: throw BadRequest(
        "there is no schedule for ${counted(steps)}; there are ${schedules.keys.sorted().joinToString()}",
    )
    val initial = request.image
    if (initial != null) {
        val facts = factsFor(initial)
        return if (facts.initial == null) schedule else facts.schedule(steps, initial.strength)
    }
    if (image?.inpaints == true) throw BadRequest("this model repaints a part of an image: give an image and a mask")
    if (image?.required == true) throw BadRequest("this model reads an image beside the prompt: give one")
    return schedule
}
