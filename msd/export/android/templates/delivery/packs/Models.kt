package dev.msd.delivery

import android.app.Activity
import android.content.Context
import android.system.ErrnoException
import android.system.Os
import com.google.android.play.core.@@{library}.@@{kind}PackManager
import com.google.android.play.core.@@{library}.@@{kind}PackManagerFactory
import dev.msd.runtime.BadDevice
import dev.msd.runtime.BadFile
import dev.msd.runtime.Manifest
import dev.msd.runtime.Why
import java.io.File

/** The model, delivered by Google Play in packs: plain files, which are mapped where they lie. */
public class Models internal constructor(context: Context, private val patience: Long) {
    private val app: Context = context.applicationContext
    private val model = AppModel(app)
    private val manager: @@{kind}PackManager = @@{kind}PackManagerFactory.getInstance(app)

    public constructor(context: Context) : this(context, PATIENCE)

    /** What the model is, whether its files are there yet or not; throws a RuntimeFailure for a damaged app. */
    public val manifest: Manifest get() = model.manifest

    /**
     * Returns the folder with the model's files, checked; blocks while Google Play delivers them.
     *
     * Play delivers only while the app is visible, or had delivered them before. Throws a RuntimeFailure: Cancelled
     * when the thread is interrupted, which also ends Play's download, or when the user cancels in Play's notification.
     */
    public fun folder(onArrival: OnArrival = OnArrival {}): File {
        model.pushed()?.let { return it }
        val missing = PACKS.filter { manager.getPackLocation(it) == null }
        if (missing.isNotEmpty()) Delivery(manager, missing, patience, onArrival).await()
        val folders = PACKS.map(::folderOf)
        requireModel(folders[0])
        val folder = folders.singleOrNull() ?: linked(folders, model.folder)
        model.verify.check(manifest, folder) { done, total -> onArrival.onArrival(Arrival.Checking(done, total)) }
        return folder
    }

    /** As [folder]; cancelling the coroutine ends it. */
    public suspend fun fetch(onArrival: OnArrival = OnArrival {}): File = interruptible { folder(onArrival) }

    /** Shows Google Play's dialog, if it waits for Wi-Fi or consent; call it on the main thread. */
    public fun askConsent(activity: Activity): Unit = showConsent(activity)

    /** Does nothing: Google Play shows notifications of its own. */
    @Suppress("UNUSED_PARAMETER")
    public fun askNotifications(activity: Activity): Unit = Unit

    private fun folderOf(pack: String): File {
        val path = manager.getPackLocation(pack)?.assetsPath()
            ?: throw BadFile("Google Play has removed the pack $pack; try again", why = Why.Unreachable)
        return File(path, pack)
    }

    private fun requireModel(folder: File) {
        if (File(folder, PLACEHOLDER).isFile) {
            val sentence = "Google Play delivers this model only to devices with more memory than this one has"
            throw BadDevice(sentence, Why.LittleMemory(0, 0))
        }
        if (!File(folder, Manifest.NAME).isFile) {
            throw BadFile("the pack in $folder has no ${Manifest.NAME}; update the app", why = Why.NotOffered)
        }
        model.requireSame(folder) { "update the app in Google Play" }
    }

    private companion object {
        val PACKS: List<String> = listOf(@@{packs})
        const val PLACEHOLDER: String = "@@{placeholder}"

        /** After so many milliseconds without news, Play is asked again. */
        const val PATIENCE: Long = 10_000

        /** Returns [links] with links to the files of several folders, and to nothing else. */
        @Synchronized
        fun linked(folders: List<File>, links: File): File {
            val targets = folders.flatMap { it.listFiles().orEmpty().asList() }.associateBy(File::getName)
            links.mkdirs()
            for (path in links.listFiles().orEmpty()) {
                if (path.canonicalPath != targets[path.name]?.canonicalPath) path.delete()
            }
            try {
                for ((name, target) in targets) {
                    val link = File(links, name)
                    if (!link.exists()) Os.symlink(target.path, link.path)
                }
            } catch (problem: ErrnoException) {
                throw BadFile("cannot link the packs' files in $links: ${problem.message}", problem)
            }
            return links
        }
    }
}
