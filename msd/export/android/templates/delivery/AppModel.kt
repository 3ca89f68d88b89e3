package dev.msd.delivery

import android.content.Context
import android.content.pm.ApplicationInfo
import dev.msd.runtime.BadFile
import dev.msd.runtime.BadManifest
import dev.msd.runtime.Manifest
import dev.msd.runtime.Verify
import dev.msd.runtime.Why
import java.io.File
import java.io.IOException

/** What an app knows of its model before it has it: the manifest among its assets, and the folder for the files. */
internal class AppModel(private val context: Context) {
    val text: String by lazy {
        try {
            context.assets.open("sd-models/${Manifest.NAME}").use { it.readBytes().decodeToString() }
        } catch (problem: IOException) {
            val sentence = "the app has no asset sd-models/${Manifest.NAME}; add the library's assets to it"
            throw BadManifest(sentence, problem)
        }
    }
    val manifest: Manifest by lazy { Manifest.parse(text) }
    val folder: File = File(context.noBackupFilesDir, "sd-models")

    /** The notes are those of `openPipeline`, which does not check again what was checked here. */
    val verify: Verify = Verify(File(context.noBackupFilesDir, "msd"))

    /**
     * Returns the folder that install-to-device.sh filled, or null; a build for users never looks there.
     *
     * Throws [BadFile] if it holds another model than the app's manifest describes.
     */
    fun pushed(): File? {
        if (context.applicationInfo.flags and ApplicationInfo.FLAG_DEBUGGABLE == 0) return null
        val pushed = File(context.filesDir, "sd-models").takeIf { File(it, Manifest.NAME).isFile } ?: return null
        requireSame(pushed) { "run install-to-device.sh of the same export as the app, or delete that folder" }
        return pushed
    }

    /** Throws [BadFile] unless the manifest in [other] is that of the app, with the sentence that [remedy] returns. */
    fun requireSame(other: File, remedy: () -> String) {
        if (File(other, Manifest.NAME).readText() != text) {
            val sentence = "$other holds another model than the app's manifest describes; ${remedy()}"
            throw BadFile(sentence, why = Why.NotOffered)
        }
    }
}
