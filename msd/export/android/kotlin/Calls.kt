package dev.msd.runtime

/**
 * What an input of a network is made of: [kind] "tokens" by the tokenizer [of]; "latent", times the step's scale where
 * [scaled]; "numbers" or "sinusoids" of "timestep", "guidance" or "sizes"; "pixels" of "image", "masked image" or
 * "mask"; "hint", the picture by which the ControlNet [of] steers, or "scales", by how much each of its outputs counts;
 * or "value", what an earlier call computed. Sinusoids are half cosines, half sines, at [frequencies].
 */
public class Source(
    public val kind: String,
    public val of: String = "",
    public val scaled: Boolean = false,
    public val cosineFirst: Boolean = false,
    public val frequencies: FloatArray = FloatArray(0),
)

/**
 * An input by its [name]: [sources], joined along [axis] where there are several, or if [summed] added, those of them
 * that have been computed.
 */
public class Input(
    public val name: String,
    public val sources: List<Source>,
    public val axis: Int,
    public val summed: Boolean = false,
)

/**
 * An output: the [value] that later calls know it by, its [tensor], and what it is: "hidden states", "vector",
 * "tensor", "moments" or "latents", multiplied by [factor], "prediction" or "image". With [zeroIfAbsent], it is zeros
 * for a negative prompt that is empty.
 */
public class Output(
    public val value: String,
    public val tensor: String,
    public val kind: String,
    public val factor: Float,
    public val zeroIfAbsent: Boolean = false,
)

/** One run of the network [component]: [at] "once" before the first step, every "step", a "preview", or the "end". */
public class Call(
    public val component: String,
    public val at: String,
    public val inputs: List<Input>,
    public val outputs: List<Output>,
) {
    /** All sources of all inputs. */
    public val sources: List<Source> get() = inputs.flatMap(Input::sources)

    /** The names of the ControlNets whose pictures it takes. */
    internal val hints: List<String> get() = sources.filter { it.kind == "hint" }.map(Source::of)

    /** The name of the ControlNet that it is a call of, and of nothing more; "" for other calls. */
    public val control: String get() = if (computes("prediction") == null) hints.firstOrNull().orEmpty() else ""

    internal fun computes(kind: String): Output? = outputs.find { it.kind == kind }
}

/** A model's calls, sorted by when they run and what they depend on. */
internal class Wiring(private val calls: List<Call>) {
    private val makers = calls.flatMap { call -> call.outputs.map { it.value to call } }.toMap()
    private val once = calls.filter { it.at == "once" }

    /** The calls that run once for each row of prompts. */
    val ofPrompts: List<Call> = once.filter(::readsTokens)

    /** The calls that run once for an image that is given. */
    val ofImages: List<Call> = once - ofPrompts.toSet()

    /** The calls of every step, in order. */
    val steps: List<Call> = calls.filter { it.at == "step" }

    /** The call of every step that predicts. */
    val denoiser: Call = only("step", "prediction")

    /** The call that decodes the final latents. */
    val decoder: Call = only("end", "image")

    /** Returns the call that decodes previews with the network [role]. */
    fun decoderOf(role: String): Call =
        calls.find { it.component == role && it.at in listOf("preview", "end") && it.computes("image") != null }
            ?: throw BadManifest("the manifest has no call that decodes with $role")

    /** Whether a call takes numbers or sinusoids of [quantity]. */
    fun takes(quantity: String): Boolean =
        calls.any { call -> call.sources.any { it.of == quantity && it.kind in listOf("numbers", "sinusoids") } }

    private fun readsTokens(call: Call): Boolean = call.sources.any { source ->
        val maker = if (source.kind == "value") makers[source.of] else null
        source.kind == "tokens" || (maker != null && maker !== call && readsTokens(maker))
    }

    private fun only(at: String, kind: String): Call {
        val found = calls.filter { it.at == at && it.computes(kind) != null }
        return found.singleOrNull()
            ?: throw BadManifest("the manifest has ${found.size} calls that compute the $kind, and 1 was expected")
    }
}

/** Throws [BadManifest] for calls that cannot run: a value that is not there by then, an input that a file lacks. */
internal fun Manifest.requireCalls() {
    val made = HashSet<String>()
    for (call in calls) {
        val file = file(call.component)
        for (input in call.inputs) {
            if (file.input(input.name) == null) {
                throw BadManifest("the manifest calls ${call.component} with ${input.name}, which ${file.name} lacks")
            }
        }
        for (source in call.sources) {
            val missing = (source.kind == "value" && source.of !in made) ||
                (source.kind == "tokens" && source.of !in tokenizers)
            if (missing) throw BadManifest("the manifest calls ${call.component} with ${source.of} before it is there")
        }
        call.outputs.mapTo(made, Output::value)
    }
    preview?.let(wiring::decoderOf)
    val initial = image?.initial
    if (initial != null && initial !in made) throw BadManifest("the manifest has no call that computes $initial")
}
