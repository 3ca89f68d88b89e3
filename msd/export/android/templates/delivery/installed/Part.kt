package dev.msd.delivery

import dev.msd.runtime.BadFile
import dev.msd.runtime.ModelFile
import dev.msd.runtime.NoSpace
import dev.msd.runtime.Verify
import java.io.Closeable
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import java.security.MessageDigest

/**
 * What has arrived of [file]: a file of its own, which outlives the process, hashed while it is written.
 *
 * [counted] receives how many bytes came, or were thrown away, if negative.
 */
internal class Part(
    val file: ModelFile,
    private val folder: File,
    private val stop: Stop,
    private val counted: (Long) -> Unit,
) : Closeable {
    private val part = pathOf(file, folder)
    private val tagged = tagOf(file, folder)
    private val hash = MessageDigest.getInstance("SHA-256")

    /** How many bytes have arrived. */
    var done: Long = 0
        private set

    /** How many bytes have not. */
    val missing: Long get() = file.bytes - done

    /** What the server called the version of the file that it sent, or null. */
    val tag: String? get() = if (tagged.isFile) tagged.readText() else null

    init {
        if (part.length() > file.bytes) part.delete()
        if (part.isFile) hashHead()
    }

    private val out = FileOutputStream(part, true)

    private fun hashHead() = part.inputStream().use { head ->
        val buffer = ByteArray(BUFFER)
        while (true) {
            stop.check()
            val count = head.read(buffer)
            if (count < 0) break
            hash.update(buffer, 0, count)
            done += count
        }
    }

    /** Throws away what has arrived; [tag] is the version that is about to come. */
    fun restart(tag: String?) {
        val lost = done
        stop.guarded {
            out.channel.truncate(0)
            if (tag == null) tagged.delete() else tagged.writeText(tag)
            hash.reset()
            done = 0
        }
        if (lost > 0) counted(-lost)
    }

    /** Appends all that [from] gives; throws [BadFile] for more than the manifest says, and what [from] throws. */
    fun take(from: InputStream) {
        val buffer = ByteArray(BUFFER)
        while (true) {
            val count = from.read(buffer)
            if (count < 0) return
            if (count > missing) {
                stop.guarded(::discard)
                throw BadFile("${file.name} does not end after the ${file.bytes} bytes that the manifest says")
            }
            stop.guarded { write(buffer, count) }
            counted(count.toLong())
        }
    }

    private fun write(buffer: ByteArray, count: Int) {
        try {
            out.write(buffer, 0, count)
        } catch (problem: IOException) {
            val free = folder.usableSpace
            if (free >= missing) throw BadFile("cannot write $part: ${problem.message}", problem)
            val sentence = "$folder needs $missing bytes more and the disk has $free; free some and try again"
            throw NoSpace(sentence, missing - free)
        }
        hash.update(buffer, 0, count)
        done += count
    }

    /** Gives the file its name if it is what the manifest says; else throws it away, and [BadFile]. */
    fun finish(verify: Verify) {
        // A device that loses power must not keep a file of zeros under a name that is trusted.
        out.fd.sync()
        stop.guarded { rename(verify) }
    }

    private fun rename(verify: Verify) {
        if (hash.digest().joinToString("") { "%02x".format(it) } != file.sha256) {
            discard()
            throw BadFile("${file.name} arrived with another SHA-256 than the manifest says and was deleted; try again")
        }
        val path = File(folder, file.name)
        if (!part.renameTo(path)) throw IOException("cannot rename $part")
        tagged.delete()
        verify.note(file, path)
    }

    private fun discard() {
        tagged.delete()
        part.delete()
    }

    override fun close(): Unit = out.close()

    companion object {
        private const val BUFFER = 1 shl 16

        /** Where the bytes of a file are until all have arrived; another version of it has another name. */
        fun pathOf(file: ModelFile, folder: File): File = File(folder, "${file.name}.${file.sha256.take(16)}.part")

        /** Where the server's name of that version is. */
        fun tagOf(file: ModelFile, folder: File): File = File(pathOf(file, folder).path + ".tag")
    }
}
