package dev.msd.runtime

/** How the prompt and the negative prompt meet: in one row of the U-Net, in two, or told to it as a number. */
internal enum class Mode(val rows: Int) { NONE(1), TWO_PASSES(2), BATCH_2(2), EMBEDDING(1) }

/** How one picture is guided, and by how much; a [scale] of 1 or less is none, unless it is embedded. */
internal class Guidance(val mode: Mode, val scale: Double) {
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
        /** How much finer guidance is embedded than a timestep. */
        const val FINENESS = 1000.0

        /** Returns how pictures are guided by this model: the U-Net's file decides. */
        fun of(manifest: Manifest, scale: Double): Guidance {
            val batch = manifest.file("unet").input("latent")?.shape?.first()
            return when {
                manifest.guidanceEmbedding != null -> Guidance(Mode.EMBEDDING, scale)
                scale <= 1 -> Guidance(Mode.NONE, scale)
                else -> Guidance(if (batch == 1) Mode.TWO_PASSES else Mode.BATCH_2, scale)
            }
        }
    }
}
