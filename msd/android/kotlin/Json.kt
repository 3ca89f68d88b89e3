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

/** One parsed JSON object whose members are read by name and kind; [where] is what it is called in messages. */
internal class Members(private val value: Any?, private val where: String) {
    private val members: Map<*, *> = value as? Map<*, *> ?: throw BadManifest("$where is not an object")

    fun text(name: String): String = get(name)

    fun number(name: String): Double = get(name)

    fun flag(name: String): Boolean = get(name)

    fun whole(name: String): Long = whole(get<Double>(name), name)

    fun int(name: String): Int = whole(name).toInt()

    fun has(name: String): Boolean = members[name] != null

    fun child(name: String): Members = Members(require(name), "$where.$name")

    fun ints(name: String): IntArray = list(name).map { whole(cast<Double>(it, name), name).toInt() }.toIntArray()

    fun floats(name: String): FloatArray = list(name).map { cast<Double>(it, name).toFloat() }.toFloatArray()

    fun children(name: String): List<Members> = list(name).mapIndexed { i, item -> Members(item, "$where.$name[$i]") }

    private fun list(name: String): List<*> = get(name)

    private inline fun <reified T> get(name: String): T = cast(require(name), name)

    private inline fun <reified T> cast(value: Any?, name: String): T =
        value as? T ?: throw BadManifest("$where.$name is $value, which is of the wrong kind")

    private fun require(name: String): Any =
        members[name] ?: throw BadManifest("$where lacks ${quoted(name)}")

    private fun whole(value: Double, name: String): Long {
        val rounded = value.toLong()
        if (rounded.toDouble() != value) throw BadManifest("$where.$name is $value, which is no whole number")
        return rounded
    }
}
