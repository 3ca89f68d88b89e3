package dev.msd.runtime

/**
 * One step of a scheduler, as numbers: with latents x, the network's output o, and what was clean at the step
 * before, p.
 *
 * The network is fed [scale]·x. Clean is c = [cleanLatent]·x + [cleanOutput]·o, cut to ±[clip] where that is
 * given. The next latents are [latent]·x + [output]·o + [clean]·c + [previous]·p + [noise]·n, with normal noise n.
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

    internal companion object {
        fun read(from: Members) = Step(
            timestep = from.number("timestep"),
            latent = from.number("latent").toFloat(),
            output = from.number("output").toFloat(),
            clean = from.number("clean").toFloat(),
            cleanLatent = from.number("clean_latent").toFloat(),
            cleanOutput = from.number("clean_output").toFloat(),
            clip = if (from.has("clip")) from.number("clip").toFloat() else null,
            previous = from.number("previous").toFloat(),
            noise = from.number("noise").toFloat(),
            scale = from.number("scale").toFloat(),
        )
    }
}

/** The steps of one picture, in order; it begins with normal noise times [start]. */
public class Schedule(public val start: Float, public val steps: List<Step>) {
    internal companion object {
        fun read(from: Members): Schedule {
            val steps = from.children("steps").map(Step::read)
            if (steps.size != from.int("count") || steps.isEmpty()) {
                throw BadManifest("a schedule of ${from.int("count")} steps has ${steps.size}")
            }
            return Schedule(from.number("start").toFloat(), steps)
        }
    }
}
