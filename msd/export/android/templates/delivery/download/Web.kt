package dev.msd.delivery

import dev.msd.runtime.BadFile
import dev.msd.runtime.Why
import java.io.IOException
import java.net.HttpURLConnection
import java.net.SocketTimeoutException
import java.net.URI
import java.net.UnknownHostException

/** How long to wait for a server, in milliseconds, and how often to try again while no byte arrives. */
internal class Patience(
    val connect: Int = 20_000,
    val read: Int = 30_000,
    val pause: Long = 1_000,
    val tries: Int = 5,
)

/** Files below the address [base] of a web server, each fetched from where its part ends. */
internal class Web(private val base: String, private val stop: Stop, private val patience: Patience) : Source {

    /** Throws [BadFile] if the server has another file or none, or if it cannot be reached for a while. */
    override fun fill(part: Part) {
        var fruitless = 0
        while (part.missing > 0) {
            val before = part.done
            try {
                request(part)
                if (part.missing > 0) throw IOException("the connection ended early")
            } catch (problem: IOException) {
                stop.check()
                fruitless = if (part.done > before) 0 else fruitless + 1
                if (part.missing > 0 && fruitless >= patience.tries) throw unreachable(part, problem)
                if (part.missing > 0) stop.pause(patience.pause shl fruitless)
            }
        }
    }

    private fun request(part: Part) {
        val connection = open(part)
        stop.unblockBy(connection::disconnect)
        try {
            val answer = Answer(connection)
            prepare(part, answer)
            connection.inputStream.use(part::take)
            // A page that asks to log in, for example, ends like a file, and is no beginning of one.
            if (part.missing > 0 && answer.isWhole && answer.length == null) part.restart(null)
        } finally {
            connection.disconnect()
        }
    }

    private fun open(part: Part): HttpURLConnection {
        val connection = URI(base + part.file.name).toURL().openConnection() as HttpURLConnection
        connection.connectTimeout = patience.connect
        connection.readTimeout = patience.read
        // Otherwise Android asks for gzip, and no length of the answer would be that of the file.
        connection.setRequestProperty("Accept-Encoding", "identity")
        if (part.done > 0) {
            connection.setRequestProperty("Range", "bytes=${part.done}-")
            part.tag?.let { connection.setRequestProperty("If-Range", it) }
        }
        return connection
    }

    /** Makes the part ready for the bytes of an answer; throws [BadFile] for an answer that cannot be the file. */
    private fun prepare(part: Part, answer: Answer) {
        when {
            answer.isWhole -> {
                requireSize(part, answer.length)
                part.restart(answer.validator)
            }
            answer.code == HttpURLConnection.HTTP_PARTIAL -> requireRest(part, answer)
            answer.code == RANGE_REFUSED -> {
                part.restart(null)
                throw IOException("the server has no bytes where the last attempt ended")
            }
            else -> throw refusal(part, answer)
        }
    }

    private fun requireRest(part: Part, answer: Answer) {
        val range = answer.range ?: throw IOException("the server sends a range of bytes and does not say which")
        requireSize(part, range.total)
        if (range.first == part.done) return
        part.restart(null)
        throw IOException("the server sends bytes from ${range.first} on, which were not asked for")
    }

    private fun requireSize(part: Part, bytes: Long?) {
        if (bytes == null || bytes == part.file.bytes) return
        throw notOffered("${address(part)} has $bytes bytes and the manifest says ${part.file.bytes}; $UPLOAD")
    }

    private fun refusal(part: Part, answer: Answer): Exception = when {
        answer.isTemporary -> IOException("it answers ${answer.code}")
        answer.code in REDIRECTS -> notOffered(
            "${address(part)} redirects to ${answer.location}, and redirects from http to https or back are not" +
                " followed; give the app that address",
        )
        else -> notOffered("${address(part)} answers ${answer.code}${named(answer.code)}; $UPLOAD")
    }

    private fun unreachable(part: Part, problem: IOException): BadFile {
        val why = when (problem) {
            is UnknownHostException -> "there is no connection, or no server of that name"
            is SocketTimeoutException -> "the server did not answer in time"
            else -> problem.message ?: problem.javaClass.simpleName
        }
        val sentence = "cannot download ${address(part)}: $why; try again, and it goes on from there"
        return BadFile(sentence, problem, Why.Unreachable)
    }

    private fun notOffered(sentence: String) = BadFile(sentence, why = Why.NotOffered)

    private fun address(part: Part) = base + part.file.name

    private fun named(code: Int) = when (code) {
        HttpURLConnection.HTTP_UNAUTHORIZED, HttpURLConnection.HTTP_FORBIDDEN -> " (not allowed)"
        HttpURLConnection.HTTP_NOT_FOUND, HttpURLConnection.HTTP_GONE -> " (not there)"
        else -> ""
    }

    private companion object {
        const val RANGE_REFUSED = 416
        const val UPLOAD = "upload all of the export's download/ to the address that the app has"
        val REDIRECTS = setOf(301, 302, 303, 307, 308)
    }
}
