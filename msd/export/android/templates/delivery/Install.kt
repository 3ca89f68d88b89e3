package dev.msd.delivery

import android.content.Context
import dev.msd.runtime.BadFile
import dev.msd.runtime.Manifest
import dev.msd.runtime.Verify
import java.io.File
import java.io.FilterInputStream
import java.io.IOException
import java.io.InputStream

/**
 * Copies what is missing of the model to a folder of the app's own, checks it on the way, and returns the folder.
 *
 * The manifest is the asset that came with the app, so whatever [source] gives is held against it.
 */
internal fun installed(context: Context, arrival: Arrival, source: (String) -> InputStream): File {
    val text = try {
        context.assets.open("sd-models/${Manifest.NAME}").use { it.readBytes().decodeToString() }
    } catch (problem: IOException) {
        throw BadFile("the app has no asset sd-models/${Manifest.NAME}; add the library's assets to it", problem)
    }
    val manifest = Manifest.parse(text)
    val folder = File(context.noBackupFilesDir, "sd-models")
    val count = Count(manifest.files.sumOf { it.bytes }, arrival)
    Verify(File(context.noBackupFilesDir, "msd")).install(manifest, folder) { Counted(source(it), count) }
    try {
        File(folder, Manifest.NAME).writeText(text)
    } catch (problem: IOException) {
        throw BadFile("cannot write ${Manifest.NAME} to $folder; free some space and try again", problem)
    }
    return folder
}

private class Count(private val total: Long, private val arrival: Arrival) {
    private var done = 0L

    fun add(bytes: Int) {
        done += bytes
        arrival.onBytes(done, total)
    }
}

private class Counted(stream: InputStream, private val count: Count) : FilterInputStream(stream) {
    override fun read(buffer: ByteArray, offset: Int, length: Int): Int =
        super.read(buffer, offset, length).also { if (it > 0) count.add(it) }
}
