package dev.msd.runtime

import java.io.File
import java.io.IOException
import java.io.InputStream
import java.security.MessageDigest

/**
 * Files that are what the manifest says: checked by SHA-256 once, after that by size and time of change.
 *
 * What has been checked is noted in the folder [notes], which is the app's own. [freeBytes] says how much space
 * the disk of a folder has.
 */
public class Verify(private val notes: File, private val freeBytes: (File) -> Long = File::getUsableSpace) {

    /**
     * Checks every file of a model in [folder]; throws [BadFile] for the first that is missing or another.
     *
     * [onBytes] receives how many bytes are done, of how many; files that were checked before are done at once.
     */
    public fun check(manifest: Manifest, folder: File, onBytes: (Long, Long) -> Unit = { _, _ -> }) {
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

    /**
     * Copies what is missing of a model to [folder], each file whole or not at all, and checks it on the way.
     *
     * [source] opens a file by name: a pack's asset, a download. Throws [NoSpace] before the first byte where the
     * disk is too small for all, and [BadFile] for a source that gives something else.
     */
    public fun install(manifest: Manifest, folder: File, source: (String) -> InputStream) {
        folder.mkdirs()
        val missing = manifest.files.filterNot { isNoted(it, File(folder, it.name)) }
        val (needed, free) = missing.sumOf(ModelFile::bytes) to freeBytes(folder)
        if (needed > free) {
            throw NoSpace("$folder needs $needed bytes more and the disk has $free; free some and try again")
        }
        for (file in missing) copy(file, File(folder, file.name), source)
    }

    private fun check(file: ModelFile, path: File, onBytes: (Int) -> Unit) {
        if (!path.isFile) throw spoiled("$path is missing, though the manifest lists it")
        val bytes = path.length()
        if (bytes != file.bytes) throw spoiled("$path has $bytes bytes and the manifest says ${file.bytes}")
        val found = path.inputStream().use { digest(it) { _, _, count -> onBytes(count) } }
        if (found != file.sha256) throw spoiled("$path has another SHA-256 than the manifest says")
        note(file, path)
    }

    private fun copy(file: ModelFile, path: File, source: (String) -> InputStream) {
        val part = File(path.path + ".part")
        try {
            val found = part.outputStream().use { to -> source(file.name).use { digest(it, to::write) } }
            if (found != file.sha256) {
                throw BadFile("the source's ${file.name} has another SHA-256 than the manifest says")
            }
            if (!part.renameTo(path)) throw IOException("cannot rename it")
            note(file, path)
        } catch (problem: IOException) {
            throw BadFile("cannot install $path: ${problem.message}", problem)
        } finally {
            part.delete()
        }
    }

    private fun spoiled(what: String) = BadFile("$what; install the model again")

    private fun digest(from: InputStream, seen: (ByteArray, Int, Int) -> Unit): String {
        val hash = MessageDigest.getInstance("SHA-256")
        val buffer = ByteArray(1 shl 16)
        while (true) {
            val count = from.read(buffer)
            if (count < 0) break
            hash.update(buffer, 0, count)
            seen(buffer, 0, count)
        }
        return hash.digest().joinToString("") { "%02x".format(it) }
    }

    private fun isNoted(file: ModelFile, path: File): Boolean {
        val marker = marker(path)
        return path.isFile && marker.isFile && marker.readText() == facts(file, path)
    }

    private fun note(file: ModelFile, path: File) {
        notes.mkdirs()
        marker(path).writeText(facts(file, path))
    }

    private fun marker(path: File): File {
        val place = path.absolutePath.hashCode().toUInt().toString(16)
        return File(notes, "${path.name}.$place.verified")
    }

    private fun facts(file: ModelFile, path: File) =
        "${path.absolutePath}\n${path.length()}\n${path.lastModified()}\n${file.sha256}\n"
}
