package dev.msd.runtime

import java.io.File
import java.security.MessageDigest

/**
 * Files that are what the manifest says: checked by SHA-256 once, after that by size and time of change.
 *
 * What has been checked is noted in the folder [notes], which is the app's own. Notes on files that are gone are
 * removed: Google Play, for example, puts each version of a pack in a folder of its own.
 */
public class Verify(private val notes: File) {

    /**
     * Checks every file of a model in [folder]; throws [BadFile] for the first that is missing or another.
     *
     * [onBytes] receives how many bytes are done, of how many; it receives nothing if all were checked before.
     * Throws [Cancelled] when the thread is interrupted.
     */
    public fun check(manifest: Manifest, folder: File, onBytes: (Long, Long) -> Unit = { _, _ -> }) {
        forget()
        val unchecked = manifest.files.filterNot { isNoted(it, File(folder, it.name)) }
        val total = unchecked.sumOf(ModelFile::bytes)
        var done = 0L
        for (file in unchecked) {
            check(file, File(folder, file.name)) {
                done += it
                onBytes(done, total)
            }
        }
    }

    /** Checks one file, as the other function does; [onBytes] receives how many bytes more are done. */
    public fun check(file: ModelFile, path: File, onBytes: (Int) -> Unit = {}) {
        if (isNoted(file, path)) return
        if (!path.isFile) throw spoiled("$path is missing, though the manifest lists it")
        val bytes = path.length()
        if (bytes != file.bytes) throw spoiled("$path has $bytes bytes and the manifest says ${file.bytes}")
        if (digest(path, onBytes) != file.sha256) throw spoiled("$path has another SHA-256 than the manifest says")
        note(file, path)
    }

    /** Returns whether [path] was checked or noted, and has not changed since. */
    public fun isNoted(file: ModelFile, path: File): Boolean {
        val marker = marker(path)
        return path.isFile && marker.isFile && marker.readText() == facts(file, path)
    }

    /** Notes that [path] is what the manifest says, as whoever wrote it has just found out. */
    public fun note(file: ModelFile, path: File) {
        notes.mkdirs()
        marker(path).writeText(facts(file, path))
    }

    /** Removes the notes on files that are no longer there. */
    private fun forget() {
        for (marker in notes.listFiles().orEmpty()) {
            if (marker.name.endsWith(NOTED) && !File(marker.readText().substringBefore('\n')).isFile) marker.delete()
        }
    }

    private fun spoiled(what: String) = BadFile("$what; install the model again")

    private fun digest(path: File, onBytes: (Int) -> Unit): String {
        val hash = MessageDigest.getInstance("SHA-256")
        val buffer = ByteArray(1 shl 18)
        path.inputStream().use { from ->
            while (true) {
                if (Thread.currentThread().isInterrupted) throw Cancelled("checking the model's files was cancelled")
                val count = from.read(buffer)
                if (count < 0) break
                hash.update(buffer, 0, count)
                onBytes(count)
            }
        }
        return hash.digest().joinToString("") { "%02x".format(it) }
    }

    private fun marker(path: File): File {
        val place = path.absolutePath.hashCode().toUInt().toString(16)
        return File(notes, "${path.name}.$place$NOTED")
    }

    private fun facts(file: ModelFile, path: File) =
        "${path.absolutePath}\n${path.length()}\n${path.lastModified()}\n${file.sha256}\n"

    private companion object {
        /** How the names of notes end. */
        const val NOTED = ".verified"
    }
}
