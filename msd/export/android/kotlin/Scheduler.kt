package dev.msd.runtime

/**
 * One step of a scheduler, as numbers: with latents x, the network's output o, and what was clean at the step
 * before, p.
 *
 * The network is fed [scale]·x. Clean is c = [cleanLatent]·x + [cleanOutput]·o, cut to ±[clip] where that is
 * given. The next latents are [latent]·x + [output]·o + [clean]·c + [previous]·p + [noise]·n, with normal noise n.
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
    public val previous: Float,
    public val noise: Float,
    public val scale: Float,
    public val signal: Float,
    public val sigma: Float,
) {
    /** Returns the next latents, float32, and what is clean, or null where that does not count. */
    public fun apply(x: FloatArray, o: FloatArray, p: FloatArray?, n: FloatArray?): Pair<FloatArray, FloatArray?> {
        val next = FloatArray(x.size) { latent * x[it] + output * o[it] }
        val c = cleanOf(x, o)
        add(clean, c, next)
        add(previous, p, next)
        add(noise, n, next)
        return next to c
    }

    private fun cleanOf(x: FloatArray, o: FloatArray): FloatArray? {
        if (cleanLatent == 0f && cleanOutput == 0f) return null
        return FloatArray(x.size) {
            val c = cleanLatent * x[it] + cleanOutput * o[it]
            if (clip == null) c else c.coerceIn(-clip, clip)
        }
    }

    private fun add(size: Float, values: FloatArray?, to: FloatArray) {
        if (size == 0f || values == null) return
        for (i in to.indices) to[i] += size * values[i]
    }
}

/** The steps of one image, in order; it begins with normal noise times [start]. */
public class Schedule(public val start: Float, public val steps: List<Step>)
