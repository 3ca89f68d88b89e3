package dev.msd.delivery

import android.content.Context
import android.system.Os
import com.google.android.gms.tasks.Tasks
import com.google.android.play.core.@@{library}.@@{kind}PackManager
import com.google.android.play.core.@@{library}.@@{kind}PackManagerFactory
import com.google.android.play.core.@@{library}.@@{kind}PackState
import com.google.android.play.core.@@{library}.@@{kind}PackStateUpdateListener
import com.google.android.play.core.@@{library}.model.@@{kind}PackStatus
import dev.msd.runtime.BadFile
import dev.msd.runtime.Manifest
import java.io.File
import java.util.concurrent.ExecutionException
import java.util.concurrent.LinkedBlockingQueue

/** The model, delivered by Play in packs: plain files, which are mapped where they lie. */
public class Models(private val context: Context) {
    private val manager: @@{kind}PackManager = @@{kind}PackManagerFactory.getInstance(context)

    /** Returns the folder with the model's files; blocks while Play delivers them. Throws RuntimeFailure. */
    public fun folder(arrival: Arrival = Arrival { _, _ -> }): File = pushed(context) ?: delivered(arrival)

    private fun delivered(arrival: Arrival): File {
        val missing = PACKS.filter { manager.getPackLocation(it) == null }
        if (missing.isNotEmpty()) fetch(missing, arrival)
        val folders = PACKS.map { File(manager.getPackLocation(it)?.assetsPath() ?: throw BadFile("Play took the pack $it away"), it) }
        if (!File(folders[0], Manifest.NAME).isFile) throw BadFile("Play delivers this model to devices with more memory than this one")
        return folders.singleOrNull() ?: linked(folders)
    }

    /** Returns one folder with links to the files of several. */
    private fun linked(folders: List<File>): File {
        val links = File(context.noBackupFilesDir, "sd-models")
        links.deleteRecursively()
        links.mkdirs()
        for (file in folders.flatMap { it.listFiles().orEmpty().asList() }) Os.symlink(file.path, File(links, file.name).path)
        return links
    }

    private fun fetch(packs: List<String>, arrival: Arrival) {
        val told = LinkedBlockingQueue<@@{kind}PackState>()
        val listener = @@{kind}PackStateUpdateListener { told.put(it) }
        manager.registerListener(listener)
        try {
            val states = HashMap(Tasks.await(manager.fetch(packs)).packStates())
            states.values.forEach(::check)
            while (packs.any { states[it]?.status() != @@{kind}PackStatus.COMPLETED }) {
                val state = told.take()
                check(state)
                states[state.name()] = state
                arrival.onBytes(states.values.sumOf { it.bytesDownloaded() }, states.values.sumOf { it.totalBytesToDownload() })
            }
        } catch (problem: ExecutionException) {
            throw BadFile("Play does not deliver the model: ${problem.cause?.message}", problem)
        } finally {
            manager.unregisterListener(listener)
        }
    }

    private fun check(state: @@{kind}PackState) {
        val why = when (state.status()) {
            @@{kind}PackStatus.FAILED -> "error ${state.errorCode()}; try again"
            @@{kind}PackStatus.CANCELED -> "its download was cancelled; try again"
            @@{kind}PackStatus.REQUIRES_USER_CONFIRMATION -> "it asks for the user's consent, or did not install this app"
            else -> return
        }
        throw BadFile("Play does not deliver ${state.name()}: $why")
    }

    private companion object {
        val PACKS: List<String> = listOf(@@{packs})
    }
}
