package dev.msd.runtime

/**
 * What a step leaves to the steps that follow: the [clean] latents that its output implied, what it and the steps
 * before it kept, newest first, and saved latents, null before a step has saved any.
 */
public class StepMemory internal constructor(
    public val clean: FloatArray,
    internal val kept: List<FloatArray>,
    internal val saved: FloatArray?,
)

/**
 * The coefficients of one run of the network, for latents x, the network's output o and normal noise n.
 *
 * The network is given [scale]·x. The clean latents are c = [cleanLatent]·x + [cleanOutput]·o, clipped to ±[clip] where
 * that is set. A step reads kᵢ, what the step i steps ago kept, and the saved latents s, which it first replaces where
 * it has coefficients [save], of x, o, n, the former s, k₁, k₂ and so on. The next latents are
 * [latent]·x + [output]·o + [clean]·c + [saved]·s + [history]ᵢ·kᵢ + [noise]·n.
 *
 * A step keeps c, or [keptLatent]·x + [keptOutput]·o where these are set; [keeps] says how many of the latest the
 * steps that follow read.
 *
 * Latents before this step are [signal]·k + [sigma]·n for the latents k of an image to begin with.
 */
public class Step(
    public val timestep: Double,
    public val latent: Float,
    public val output: Float,
    public val clean: Float,
    public val cleanLatent: Float,
    public val cleanOutput: Float,
    public val clip: Float?,
    public val saved: Float,
    public val history: FloatArray,
    public val noise: Float,
    public val save: FloatArray,
    public val keptLatent: Float,
    public val keptOutput: Float,
    public val keeps: Int,
    public val scale: Float,
    public val signal: Float,
    public val sigma: Float,
) {
    /** Whether noise is added to the next latents, or to the saved ones. */
    public val takesNoise: Boolean get() = noise != 0f || (save.size > 2 && save[2] != 0f)

    /** Returns the next latents, and what the next step needs; [memory] is what the step before returned. */
    public fun apply(
        x: FloatArray,
        o: FloatArray,
        memory: StepMemory?,
        n: FloatArray?,
    ): Pair<FloatArray, StepMemory> {
        val kept = memory?.kept.orEmpty()
        val s = if (save.isEmpty()) memory?.saved else sum(save, listOf(x, o, n, memory?.saved) + kept)
        val c = cleanOf(x, o)
        val next = weighed(latent, x, output, o)
        add(clean, c, next)
        add(saved, s, next)
        history.zip(kept).forEach { (size, values) -> add(size, values, next) }
        add(noise, n, next)
        val keeping = if (keeps == 0) emptyList() else (listOf(keptOf(x, o, c)) + kept).take(keeps)
        return next to StepMemory(c, keeping, s)
    }

    private fun cleanOf(x: FloatArray, o: FloatArray): FloatArray {
        val c = weighed(cleanLatent, x, cleanOutput, o)
        if (clip != null) for (i in c.indices) c[i] = c[i].coerceIn(-clip, clip)
        return c
    }

    private fun keptOf(x: FloatArray, o: FloatArray, c: FloatArray): FloatArray =
        if (keptLatent == 0f && keptOutput == 0f) c else weighed(keptLatent, x, keptOutput, o)
}

private fun weighed(a: Float, x: FloatArray, b: Float, y: FloatArray) = FloatArray(x.size) { a * x[it] + b * y[it] }

/** Returns the sum of [values], each times its size; the first one always counts. */
private fun sum(sizes: FloatArray, values: List<FloatArray?>): FloatArray {
    val first = checkNotNull(values[0])
    val total = FloatArray(first.size) { sizes[0] * first[it] }
    for ((size, value) in sizes.zip(values).drop(1)) add(size, value, total)
    return total
}

private fun add(size: Float, values: FloatArray?, to: FloatArray) {
    if (size == 0f || values == null) return
    for (i in to.indices) to[i] += size * values[i]
}

/**
 * The runs of the network for one image of [count] steps, in order: some schedulers run it twice a step. It begins with
 * normal noise times [start].
 */
public class Schedule(public val count: Int, public val start: Float, public val steps: List<Step>)
