package dev.msd.runtime

import java.util.regex.Pattern

/** Tokens; a smaller vocabulary is that of a model that knows few words. */
private const val SMALL = 10_000

private const val STEADY = "words do not change from step to step"
private const val CHANCE = "nothing is chosen at random"
private const val WEIGHTS = "msd generate --prompt-syntax weights reads weights"

private val NUMBER: Pattern =
    Pattern.compile("""[\t-\r\x85\p{Z}]*[+-]?(?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)[\t-\r\x85\p{Z}]*""")

/** Other programs' syntax, text here: what finds it, [instead] of it, and whether what a bracket holds is meant. */
private class Foreign(pattern: String, val instead: String, private val isMeant: (String) -> Boolean = { true }) {
    private val compiled = Pattern.compile(pattern)

    /** Returns each place in [text]; one matcher finds them all, because Android's copies the text. */
    fun found(text: String): List<String> = buildList {
        val matcher = compiled.matcher(text)
        while (matcher.find()) if (isMeant(matcher.group(matcher.groupCount()).orEmpty())) add(matcher.group())
    }
}

/** The places that msd/run/runtime/remarks.py names too. */
private val FOREIGN = listOf(
    Foreign("""<(?:lora|lyco):[^<>]*>""", "msd-convert --lora merges a LoRA into the weights"),
    Foreign("""<hypernet:[^<>]*>""", "hypernetworks are not supported"),
    Foreign(
        """(?<![\p{L}\p{N}_])embedding:[^\t-\r\x85\p{Z}]+""",
        "msd-convert --embedding adds a token, whose name alone stands for it",
    ),
    Foreign(
        """(?<![\p{L}\p{N}_])BREAK(?![\p{L}\p{N}_])""",
        "long prompts are cut every 75 tokens (msd-convert --prompt-chunks)",
    ),
    Foreign("""(?<![\p{L}\p{N}_])AND(?![\p{L}\p{N}_])""", "prompts are not combined"),
    Foreign("""\[([^\[\]]*)\]""", STEADY, ::hasNumber),
    Foreign("""\[([^\[\]]*)\]""", STEADY, ::hasChoice),
    Foreign("""\{([^{}]*)\}""", CHANCE, ::hasChoice),
    Foreign("""__[\p{L}\p{N}_/-]+?__""", CHANCE),
    Foreign(
        """(?<![\p{L}\p{N}_])[\p{L}\p{N}_]{2,}\+{2,}(?![^\t-\r\x85\p{Z},.)])|\([^()]*\)(?:\++|[0-9]*\.[0-9]+)""",
        "(word:1.2) has a weight; $WEIGHTS",
    ),
    Foreign("""\(([^()]*)\)""", WEIGHTS, ::hasNumber),
    Foreign("""\(\([^()]*\)\)|\[\[[^\[\]]*\]\]""", WEIGHTS),
    Foreign("""\\[()\[\]]""", "backslashes too; $WEIGHTS"),
)

/** Returns what is not used of a request, or not as it may be meant, each remark once. */
internal fun remarks(request: Request, guidance: Guidance, tokenizer: ClipTokenizer, chunks: Int): List<Remark> {
    val remarks = ArrayList(ofGuidance(request.negativePrompt, guidance))
    if (codePoints(request.prompt).all { kind(it) == Kind.SPACE }) remarks += Remark.EmptyPrompt
    val texts = guidance.prompts(request.prompt, request.negativePrompt)
    return (remarks + texts.flatMap { ofText(it, tokenizer, chunks) }).distinctBy(Remark::message)
}

private fun ofGuidance(negativePrompt: String, guidance: Guidance): List<Remark> = buildList {
    if (negativePrompt.isNotEmpty() && guidance.mode.rows == 1) {
        add(Remark.UnusedNegativePrompt(guidance.mode == Mode.EMBEDDING))
    }
    if (guidance.mode == Mode.NONE && guidance.scale != 0.0 && guidance.scale != 1.0) {
        add(Remark.UnusedGuidance(guidance.scale))
    }
}

private fun ofText(text: String, tokenizer: ClipTokenizer, chunks: Int): List<Remark> = buildList {
    val foreign = LinkedHashMap<String, List<String>>()
    for (syntax in FOREIGN) {
        val found = syntax.found(text)
        if (found.isNotEmpty()) foreign[syntax.instead] = foreign[syntax.instead].orEmpty() + found
    }
    for ((instead, found) in foreign) add(Remark.ReadAsText(found.distinct(), instead))
    val rest = foreign.values.flatten().distinct().fold(text) { left, place -> left.replace(place, " ") }
    val unknown = if (tokenizer.size < SMALL) tokenizer.spelledWords(rest) else emptyList()
    if (unknown.isNotEmpty()) add(Remark.UnknownWords(unknown.distinct(), tokenizer.size))
    val room = chunks * tokenizer.room
    val cut = tokenizer.decode(tokenizer.idsOf(text).drop(room))
    if (cut.isNotEmpty()) add(Remark.Cut(cut, room))
}

/** Returns the words that a vocabulary has only in pieces. */
private fun ClipTokenizer.spelledWords(text: String): List<String> = wordsOf(text).filter { word ->
    val letters = codePoints(word).toList()
    letters.size > 1 && letters.all { kind(it) == Kind.LETTER } && idsOf(word).size > 1
}

/** Whether the [inside] of a bracket ends in a number after a colon. */
private fun hasNumber(inside: String): Boolean =
    ':' in inside && NUMBER.matcher(inside.substringAfterLast(':')).matches()

/** Whether the [inside] of a bracket names alternatives. */
private fun hasChoice(inside: String): Boolean = '|' in inside
