package dev.msd.runtime

/**
 * Parsed JSON (RFC 8259), strict: no comments, trailing commas, doubled keys or text after the value.
 *
 * Objects are [Map], arrays [List], strings [String], numbers [Double], and true, false and null themselves.
 */
internal class Json private constructor(private val text: String) {
    private var at = 0

    private fun whole(): Any? {
        val value = value(0)
        skipBlanks()
        if (at < text.length) fail("nothing more")
        return value
    }

    private fun value(depth: Int): Any? {
        skipBlanks()
        if (depth > DEEPEST) fail("fewer than $DEEPEST levels")
        return when (peek()) {
            '{' -> members(depth)
            '[' -> elements(depth)
            '"' -> string()
            't' -> word("true", true)
            'f' -> word("false", false)
            'n' -> word("null", null)
            else -> number()
        }
    }

    private fun members(depth: Int): Map<String, Any?> {
        val found = LinkedHashMap<String, Any?>()
        list('}') {
            val start = at
            val key = string()
            skipBlanks()
            take(':')
            if (key in found) {
                at = start
                fail("another key than ${quoted(key)}, which is there already")
            }
            found[key] = value(depth + 1)
        }
        return found
    }

    private fun elements(depth: Int): List<Any?> {
        val found = ArrayList<Any?>()
        list(']') { found += value(depth + 1) }
        return found
    }

    private inline fun list(end: Char, item: () -> Unit) {
        at++
        skipBlanks()
        if (peek() == end) {
            at++
            return
        }
        while (true) {
            skipBlanks()
            item()
            skipBlanks()
            if (peek() == end) break
            take(',')
        }
        at++
    }

    private fun string(): String {
        take('"')
        val made = StringBuilder()
        while (true) {
            val letter = peek()
            if (letter < ' ') fail("a letter")
            at++
            when (letter) {
                '"' -> return made.toString()
                '\\' -> made.append(escaped())
                else -> made.append(letter)
            }
        }
    }

    private fun escaped(): Char {
        val letter = peek()
        at++
        return when (letter) {
            '"', '\\', '/' -> letter
            'b' -> '\b'
            'f' -> '\u000C'
            'n' -> '\n'
            'r' -> '\r'
            't' -> '\t'
            'u' -> hexadecimal()
            else -> {
                at--
                fail("an escape")
            }
        }
    }

    private fun hexadecimal(): Char {
        val digits = text.substring(at, minOf(at + 4, text.length))
        if (digits.length < 4 || digits.any { it.digitToIntOrNull(16) == null }) fail("four hexadecimal digits")
        at += 4
        return digits.toInt(16).toChar()
    }

    private fun number(): Double {
        val match = NUMBER.find(text, at)
        if (match == null || match.range.first != at) fail("a value")
        at = match.range.last + 1
        return match.value.toDouble()
    }

    private fun <T> word(word: String, value: T): T {
        if (!text.startsWith(word, at)) fail(word)
        at += word.length
        return value
    }

    private fun take(letter: Char) {
        if (peek() != letter) fail("'$letter'")
        at++
    }

    private fun peek(): Char {
        if (at == text.length) throw BadManifest("the JSON ends in the middle, after $at characters")
        return text[at]
    }

    private fun skipBlanks() {
        while (at < text.length && text[at] in BLANKS) at++
    }

    private fun fail(wanted: String): Nothing =
        throw BadManifest("the JSON is wrong at character $at: $wanted should be there")

    companion object {
        private const val DEEPEST = 100
        private const val BLANKS = " \t\n\r"
        private val NUMBER = Regex("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")

        /** Returns what [text] says; throws [BadManifest] naming the first character that is wrong. */
        fun parse(text: String): Any? = Json(text).whole()
    }
}

/** Returns [text] as a JSON string, all but printable ASCII escaped. */
internal fun quoted(text: String): String = buildString {
    append('"')
    for (letter in text) {
        when {
            letter == '"' || letter == '\\' -> append('\\').append(letter)
            letter in ' '..'~' -> append(letter)
            else -> append("\\u").append(letter.code.toString(16).padStart(4, '0'))
        }
    }
    append('"')
}
