package dev.msd.runtime

/** How the prompt and the negative prompt meet: in one row of the denoiser, in two, or given to it as a number. */
internal enum class Mode(val rows: Int) { NONE(1), TWO_ROWS(2), EMBEDDING(1) }

/** How one picture is guided, and by how much; a [scale] of 1 or less is none, unless it is embedded. */
internal class Guidance(val mode: Mode, val scale: Double) {
    /** The number whose sinusoids a denoiser takes for the scale, which is embedded like a timestep. */
    val number: Double get() = 1000.0 * (scale - 1)

    /** Returns the text of each row; where there is but one, the negative prompt is not used. */
    fun prompts(prompt: String, negative: String): List<String> =
        if (mode.rows == 2) listOf(negative, prompt) else listOf(prompt)

    /** Returns what counts of the rows' outputs: the second pushed away from the first. */
    fun combine(outputs: List<FloatArray>): FloatArray {
        if (outputs.size == 1) return outputs[0]
        val (away, towards) = outputs
        val by = scale.toFloat()
        return FloatArray(away.size) { away[it] + by * (towards[it] - away[it]) }
    }

    companion object {
        /** Returns how pictures are guided by this model: its calls decide. */
        fun of(manifest: Manifest, scale: Double): Guidance = when {
            manifest.wiring.takes("guidance") -> Guidance(Mode.EMBEDDING, scale)
            scale <= 1 -> Guidance(Mode.NONE, scale)
            else -> Guidance(Mode.TWO_ROWS, scale)
        }
    }
}
