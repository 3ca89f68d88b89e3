package dev.msd.delivery

import dev.msd.runtime.BadFile
import dev.msd.runtime.Manifest
import dev.msd.runtime.ModelFile
import dev.msd.runtime.NoSpace
import java.io.File
import java.io.IOException

/** Where files come from. */
internal fun interface Source {
    /** Appends what is missing of a file to its part; throws a RuntimeFailure or [IOException]. */
    fun fill(part: Part)
}

/** Returns whether the model is in its folder, whole and checked. */
internal fun AppModel.isInstalled(): Boolean {
    val known = File(folder, Manifest.NAME)
    return manifest.files.all { verify.isNoted(it, File(folder, it.name)) } && known.isFile && known.readText() == text
}

/**
 * Puts a model into its folder, one file after the other; each gets its name when it is whole and checked.
 *
 * What is fetched stays when it is stopped or fails, and the next attempt goes on from there.
 */
internal class Install(
    private val model: AppModel,
    private val stop: Stop,
    private val freeBytes: (File) -> Long = File::getUsableSpace,
) {
    private val folder = model.folder
    private val files = model.manifest.files

    /** Throws [NoSpace] before the first byte if the disk is too small, [BadFile], and what [source] throws. */
    fun run(onArrival: OnArrival, source: Source) {
        folder.mkdirs()
        removeOthers()
        val missing = files.filterNot(::isThere)
        requireSpace(missing)
        val total = files.sumOf(ModelFile::bytes)
        val count = Count(total, total - missing.sumOf(::lacking), onArrival)
        for (file in missing) {
            explained(file.name) {
                Part(file, folder, stop, count::add).use { part ->
                    if (part.missing > 0) source.fill(part)
                    part.finish(model.verify)
                }
            }
        }
        explained(Manifest.NAME) { stop.guarded { File(folder, Manifest.NAME).writeText(model.text) } }
        count.end()
    }

    /** Removes an earlier model's files and parts, and links to packs, which the app may have had before. */
    private fun removeOthers() = stop.guarded {
        val parts = files.flatMap { listOf(Part.pathOf(it, folder), Part.tagOf(it, folder)) }
        val ours = files.map { File(folder, it.name) } + parts
        for (path in folder.listFiles().orEmpty()) {
            val isLink = path.canonicalFile != File(folder.canonicalFile, path.name)
            if (path !in ours || isLink) path.delete()
        }
    }

    /** A file that got its name just before its process ended is there too, once it has been checked. */
    private fun isThere(file: ModelFile): Boolean {
        val path = File(folder, file.name)
        return try {
            model.verify.check(file, path)
            true
        } catch (_: BadFile) {
            stop.guarded(path::delete)
            false
        }
    }

    private fun lacking(file: ModelFile): Long {
        val arrived = Part.pathOf(file, folder).length()
        return if (arrived <= file.bytes) file.bytes - arrived else file.bytes
    }

    private fun requireSpace(missing: List<ModelFile>) {
        val (needed, free) = missing.sumOf(::lacking) to freeBytes(folder)
        if (needed > free) {
            val sentence = "$folder needs $needed bytes more and the disk has $free; free some and try again"
            throw NoSpace(sentence, needed - free)
        }
    }

    private fun explained(name: String, block: () -> Unit) = try {
        block()
    } catch (problem: IOException) {
        stop.check()
        throw BadFile("cannot install $name in $folder: ${problem.message}", problem)
    }
}

/** Tells how many of [total] bytes are there: at the start, at the end, and not too often between. */
private class Count(private val total: Long, private var done: Long, private val onArrival: OnArrival) {
    private var told = done

    init {
        onArrival.onArrival(Arrival.Fetching(done, total))
    }

    fun add(bytes: Long) {
        done += bytes
        if (done < told || done - told >= OFTEN) tell()
    }

    fun end() {
        if (told < total) tell()
    }

    private fun tell() {
        told = done
        onArrival.onArrival(Arrival.Fetching(done, total))
    }

    private companion object {
        const val OFTEN = 1 shl 18
    }
}
