package dev.msd.delivery

import java.io.IOException
import java.net.HttpURLConnection

/** What a server says before it sends bytes; made, it waits for that and throws [IOException]. */
internal class Answer(private val connection: HttpURLConnection) {
    val code: Int = connection.responseCode

    /** Whether the file follows from its first byte on. */
    val isWhole: Boolean get() = code == HttpURLConnection.HTTP_OK

    /** How many bytes follow, or null if the server does not say. */
    val length: Long? get() = connection.contentLengthLong.takeIf { it >= 0 }

    /** Where a redirect leads. */
    val location: String? get() = connection.getHeaderField("Location")

    /** What names this version of the file in If-Range, or null; a weak ETag may stand for other bytes. */
    val validator: String?
        get() = connection.getHeaderField("ETag")?.takeUnless { it.startsWith("W/") }
            ?: connection.getHeaderField("Last-Modified")

    /** Whether the same request may succeed later. */
    val isTemporary: Boolean get() = code == -1 || code == BUSY || code == TIMEOUT || code >= SERVER_ERRORS

    /** Which bytes follow: the first one's place, and how many the whole file has, if the server says. */
    val range: Range? get() = connection.getHeaderField("Content-Range")?.let(RANGE::matchEntire)?.let {
        val (first, total) = it.destructured
        Range(first.toLongOrNull() ?: return null, total.toLongOrNull())
    }

    class Range(val first: Long, val total: Long?)

    private companion object {
        const val TIMEOUT = 408
        const val BUSY = 429
        const val SERVER_ERRORS = 500
        val RANGE = Regex("""bytes (\d+)-\d+/(\d+|\*)""")
    }
}
