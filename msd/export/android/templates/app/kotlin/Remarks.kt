package @@{package}

import android.content.Context
import dev.msd.runtime.Remark

/** Says in words what of a request is not used, or not as it may be meant. */
internal class Remarks(private val context: Context) {
    /** Returns a sentence or two. */
    fun of(remark: Remark): String = when (remark) {
        is Remark.EmptyPrompt -> context.getString(R.string.empty_prompt)
        is Remark.UnusedNegativePrompt ->
            context.getString(if (remark.isBuiltIn) R.string.built_in_guidance else R.string.negative_needs_guidance)
        is Remark.UnusedGuidance -> context.getString(R.string.unused_guidance)
        is Remark.IdleControl -> context.getString(R.string.idle_control, remark.control)
        is Remark.ReadAsText -> context.getString(R.string.read_as_text, listed(remark.places))
        is Remark.UnknownWords -> context.getString(R.string.unknown_words, listed(remark.words))
        is Remark.Cut -> context.getString(R.string.cut_prompt, remark.rest)
    }

    /** Returns the first texts, and how many more there are. */
    private fun listed(texts: List<String>): String {
        val said = texts.take(MOST).joinToString()
        return if (texts.size > MOST) context.getString(R.string.and_more, said, texts.size - MOST) else said
    }

    private companion object {
        const val MOST = 3
    }
}
