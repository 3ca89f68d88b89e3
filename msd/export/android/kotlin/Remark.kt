package dev.msd.runtime

import java.math.BigDecimal
import java.math.MathContext

/** Of the words or brackets of one kind, in a message. */
private const val MOST_QUOTED = 3

/**
 * What is not used of a request, or not as its writer may have meant it: [message] says it in English for logs and
 * developers, and an app in its users' language.
 */
public sealed class Remark(public val message: String) {
    /** The prompt is empty. */
    public object EmptyPrompt : Remark("the prompt is empty, so that nothing says what the image should show")

    /** The negative prompt is not used: this U-Net has its guidance built in, or the guidance is 1 or less. */
    public class UnusedNegativePrompt(public val isBuiltIn: Boolean) : Remark(
        "the negative prompt is not used: " +
            if (isBuiltIn) "this U-Net has its guidance built in" else "guidance of 1 or less needs none",
    )

    /** Guidance of [scale] is used as 1, which is none. */
    public class UnusedGuidance(public val scale: Double) :
        Remark("guidance ${short(scale)} is used as 1, which is none")

    /** The picture of the ControlNet [control] steers in none of the [runs] steps: by its scale, or where it counts. */
    public class IdleControl(public val control: String, public val runs: Int) : Remark(
        "the control $control " +
            if (runs == 1) "does not steer the one step" else "steers none of the $runs steps",
    )

    /** [places] of a prompt mean more to other programs, and are text here; [instead] is for developers. */
    public class ReadAsText(public val places: List<String>, public val instead: String) :
        Remark("read as text: ${quoted(places)}; $instead")

    /** The vocabulary, of so many [tokens], has the [words] only in pieces: the model hardly knows them. */
    public class UnknownWords(public val words: List<String>, public val tokens: Int) :
        Remark("the vocabulary of $tokens tokens has only pieces of these words: ${quoted(words)}")

    /** A prompt is longer than its [room], counted in tokens, and this [rest] is not used. */
    public class Cut(public val rest: String, public val room: Int) :
        Remark("a prompt has room for $room tokens, and this was cut: $rest")
}

private fun short(scale: Double): String =
    BigDecimal(scale).round(MathContext(6)).stripTrailingZeros().toPlainString()

/** Returns up to [MOST_QUOTED] texts, each once, and the number of the others. */
private fun quoted(found: List<String>): String {
    val distinct = found.distinct()
    val more = distinct.size - MOST_QUOTED
    return distinct.take(MOST_QUOTED).joinToString() + if (more > 0) " and $more more" else ""
}
