package dev.msd.runtime

import java.io.ByteArrayOutputStream
import java.io.File
import java.io.IOException
import java.text.Normalizer
import java.util.Locale

/**
 * CLIP's byte-level BPE tokenizer: Radford et al., "Learning Transferable Visual Models From Natural Language
 * Supervision" (2021), section 2.4.
 *
 * [vocabulary] has the symbols in the order of their ids, empty where there is none; [merges] has the pairs that merge,
 * "left right", the earliest first.
 */
public class ClipTokenizer(
    private val facts: TokenizerFacts,
    vocabulary: List<String>,
    merges: List<String>,
) {
    private val ids: Map<String, Int> = places(vocabulary)
    private val ranks: Map<String, Int> = places(merges)
    private val tokens: List<String> = vocabulary

    /** How many tokens there are. */
    internal val size: Int get() = ids.size

    /** How many ids fit between the start and the end token of a chunk. */
    internal val room: Int get() = facts.length - 2
    private val early = facts.specials.filterNot { it.normalized }.sortedBy { -it.content.length }
    private val late = facts.specials.filter { it.normalized }.sortedBy { -it.content.length }

    /** Returns the ids of [text], cut so that the end token stays, padded to the model's length. */
    public fun encode(text: String): IntArray = chunks(text, 1).single()

    /** Returns the ids of [text] in exactly [count] chunks, each with a start and an end token, cut and padded. */
    public fun chunks(text: String, count: Int): List<IntArray> {
        val inner = idsOf(text)
        return List(count) { framed(inner.drop(it * room).take(room)) }
    }

    private fun framed(inner: List<Int>): IntArray {
        val ids = IntArray(facts.length) { facts.pad }
        ids[0] = facts.start
        inner.forEachIndexed { i, id -> ids[i + 1] = id }
        ids[inner.size + 1] = facts.end
        return ids
    }

    /** Returns the ids of [text] without start and end, not cut. */
    internal fun idsOf(text: String): List<Int> = cut(text, early).flatMap { (piece, special) ->
        if (special != null) special.ids else cut(clean(piece), late).flatMap { (part, known) ->
            if (known != null) known.ids else words(part).flatMap(::merged)
        }
    }

    /** Returns the words of [text], cleaned, without special tokens. */
    internal fun wordsOf(text: String): List<String> = cut(text, early).filter { it.second == null }
        .flatMap { cut(clean(it.first), late) }.filter { it.second == null }.flatMap { words(it.first) }

    /**
     * Returns the cleaned text of [ids], as far as they are whole characters. A token of several vectors is written
     * once, as in a prompt, and also where only its last ones are left.
     */
    internal fun decode(ids: List<Int>): String {
        val special = facts.specials.flatMapTo(HashSet(), SpecialToken::ids)
        val bytes = ByteArrayOutputStream()
        for (id in written(ids)) {
            val word = tokens[id].removeSuffix(LAST)
            val spelled = when (id) {
                in special -> word.toByteArray()
                else -> ByteArray(word.length) { ALPHABET.indexOf(word[it]).toByte() }
            }
            bytes.write(spelled, 0, spelled.size)
            if (id in special || word != tokens[id]) bytes.write(' '.code)
        }
        return bytes.toString(Charsets.UTF_8.name()).trim(' ')
    }

    /** Returns [ids] without those that follow from the ones before them. */
    private fun written(ids: List<Int>): List<Int> {
        val vectors = facts.specials.map(SpecialToken::ids)
        val before = vectors.flatMap { it.drop(1).zip(it) }.toMap()
        val first = vectors.flatMap { some -> some.drop(1).map { it to some[0] } }.toMap()
        return ids.filterIndexed { i, id -> i == 0 || before[id] != ids[i - 1] }
            .mapIndexed { i, id -> if (i == 0) first[id] ?: id else id }
    }

    /** Returns the ids of one word: its bytes, neighbours merged, the pair of the lowest rank first. */
    private fun merged(word: String): List<Int> {
        var symbols = bytesOf(word).map { ALPHABET[it].toString() }
        symbols = symbols.dropLast(1) + (symbols.last() + LAST)
        while (true) {
            val pairs = symbols.zipWithNext { left, right -> "$left $right" }
            val best = pairs.minByOrNull { ranks[it] ?: Int.MAX_VALUE }
            if (best == null || best !in ranks) break
            symbols = merge(symbols, pairs, best)
        }
        return symbols.map { ids[it] ?: facts.unknown }
    }

    private fun merge(symbols: List<String>, pairs: List<String>, best: String): List<String> {
        val made = ArrayList<String>(symbols.size)
        var i = 0
        while (i < symbols.size) {
            val merges = i < pairs.size && pairs[i] == best
            made += if (merges) symbols[i] + symbols[i + 1] else symbols[i]
            i += if (merges) 2 else 1
        }
        return made
    }

    public companion object {
        /** Returns the tokenizer of a model in [folder]; throws [BadFile] for a file that cannot be read. */
        public fun openAll(manifest: Manifest, folder: File): Map<String, ClipTokenizer> {
            fun lines(role: String): List<String> {
                val file = File(folder, manifest.file(role).name)
                return try {
                    file.readLines()
                } catch (problem: IOException) {
                    throw BadFile("cannot read $file: ${problem.message}; install the model again", problem)
                }
            }
            val (vocabulary, merges) = lines("vocabulary") to lines("merges")
            return manifest.tokenizers.mapValues { ClipTokenizer(it.value, vocabulary, merges) }
        }
    }
}

/** Returns the number of each line that is not empty. */
private fun places(lines: List<String>): Map<String, Int> {
    val places = HashMap<String, Int>(2 * lines.size)
    lines.forEachIndexed { place, line -> if (line.isNotEmpty()) places[line] = place }
    return places
}

/** Yields the pieces of [text] from left to right, special tokens with what they are. */
private fun cut(text: String, specials: List<SpecialToken>): List<Pair<String, SpecialToken?>> {
    val pieces = ArrayList<Pair<String, SpecialToken?>>()
    var begun = 0
    var at = 0
    while (at < text.length && specials.isNotEmpty()) {
        val found = specials.find { text.startsWith(it.content, at) }
        if (found == null) {
            at++
            continue
        }
        pieces += text.substring(begun, at) to null
        pieces += found.content to found
        at += found.content.length
        begun = at
    }
    return pieces.apply { add(text.substring(begun) to null) }
}

/** Returns [text] composed (NFC), each run of white space one blank, lower-cased letter by letter. */
internal fun clean(text: String): String = buildString {
    var blank = false
    for (letter in codePoints(Normalizer.normalize(text, Normalizer.Form.NFC))) {
        val isBlank = kind(letter) == Kind.SPACE
        if (!isBlank) append(lowercase(letter)) else if (!blank) append(' ')
        blank = isBlank
    }
}

/** Returns the words of cleaned text: contractions, runs of letters, digits, runs of other signs. */
internal fun words(text: String): List<String> {
    val found = ArrayList<String>()
    var at = 0
    while (at < text.length) {
        val fixed = FIXED.find { text.startsWith(it, at) }
        val kind = kind(text.codePointAt(at))
        val end = when {
            fixed != null -> at + fixed.length
            kind == Kind.LETTER || kind == Kind.OTHER -> endOfRun(text, at, kind)
            else -> at + Character.charCount(text.codePointAt(at))
        }
        val word = text.substring(at, end)
        // Spelled in capitals these are no special tokens; the reference then cuts them a second time.
        if (fixed in MARKERS) found += listOf("<|", word.substring(2, word.length - 2), "|>")
        else if (kind != Kind.SPACE) found += word
        at = end
    }
    return found
}

private fun endOfRun(text: String, start: Int, kind: Kind): Int {
    var at = start
    while (at < text.length && kind(text.codePointAt(at)) == kind) at += Character.charCount(text.codePointAt(at))
    return at
}

internal enum class Kind { LETTER, NUMBER, SPACE, OTHER }

/** Returns what a code point is to the tokenizer: \p{L}, \p{N}, white space (Unicode's White_Space), or else. */
internal fun kind(letter: Int): Kind = when (Character.getType(letter).toByte()) {
    Character.UPPERCASE_LETTER, Character.LOWERCASE_LETTER, Character.TITLECASE_LETTER,
    Character.MODIFIER_LETTER, Character.OTHER_LETTER -> Kind.LETTER
    Character.DECIMAL_DIGIT_NUMBER, Character.LETTER_NUMBER, Character.OTHER_NUMBER -> Kind.NUMBER
    Character.SPACE_SEPARATOR, Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR -> Kind.SPACE
    else -> if (letter in 9..13 || letter == 0x85) Kind.SPACE else Kind.OTHER
}

internal fun lowercase(letter: Int): String = String(Character.toChars(letter)).lowercase(Locale.ROOT)

/** Returns the bytes of a word in UTF-8; those of half a surrogate pair too, which `toByteArray` would replace. */
private fun bytesOf(word: String): List<Int> = codePoints(word).toList().flatMap { code ->
    if (code in 0xD800..0xDFFF) listOf(0xE0 or (code shr 12), tail(code shr 6), tail(code))
    else String(Character.toChars(code)).toByteArray().map { it.toInt() and 0xFF }
}

private fun tail(code: Int): Int = 0x80 or (code and 0x3F)

internal fun codePoints(text: String): Sequence<Int> = sequence {
    var at = 0
    while (at < text.length) {
        val letter = text.codePointAt(at)
        yield(letter)
        at += Character.charCount(letter)
    }
}

/** What the last symbol of a word ends in. */
private const val LAST = "</w>"

private val MARKERS = listOf("<|startoftext|>", "<|endoftext|>")
private val FIXED = MARKERS + listOf("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")

/** The printable letter that stands for each of the 256 bytes (GPT-2's `bytes_to_unicode`). */
private val ALPHABET: CharArray = run {
    val plain = ('!'..'~') + ('¡'..'¬') + ('®'..'ÿ')
    var spare = 256
    CharArray(256) { if (it.toChar() in plain) it.toChar() else (spare++).toChar() }
}
