package dev.msd.tried

import android.app.Activity
import androidx.activity.result.ActivityResultLauncher
import androidx.activity.result.IntentSenderRequest
import com.google.android.gms.tasks.Task
import com.google.android.gms.tasks.Tasks
import com.google.android.play.core.assetpacks.AssetLocation
import com.google.android.play.core.assetpacks.AssetPackLocation
import com.google.android.play.core.assetpacks.AssetPackManager
import com.google.android.play.core.assetpacks.AssetPackState
import com.google.android.play.core.assetpacks.AssetPackStateUpdateListener
import com.google.android.play.core.assetpacks.AssetPackStates
import com.google.android.play.core.assetpacks.StandInStore
import com.google.android.play.core.assetpacks.model.AssetPackStatus
import com.google.android.play.core.assetpacks.model.AssetPackStorageMethod
import dev.msd.runtime.Manifest
import dev.msd.runtime.RuntimeFailure
import dev.msd.runtime.StandInContext
import dev.msd.runtime.Verify
import java.io.File
import kotlin.concurrent.thread

private class State(private val name: String, private val status: Int, private val bytes: Long) : AssetPackState() {
    override fun name(): String = name

    override fun status(): Int = status

    override fun errorCode(): Int = if (status == AssetPackStatus.FAILED) -6 else 0

    override fun bytesDownloaded(): Long = bytes

    override fun totalBytesToDownload(): Long = 15

    override fun transferProgressPercentage(): Int = 0
}

private class States(private val packNames: List<String>) : AssetPackStates() {
    override fun packStates(): Map<String, AssetPackState> =
        packNames.associateWith { State(it, AssetPackStatus.PENDING, 0) }

    override fun totalBytes(): Long = 15L * packNames.size
}

private class Location(private val folder: File) : AssetPackLocation() {
    override fun assetsPath(): String = folder.path

    override fun path(): String? = folder.parent

    override fun packStorageMethod(): Int = AssetPackStorageMethod.STORAGE_FILES
}

/** Delivers the packs of an exported project, [out], each by way of [statuses]; none at all without these. */
private class Store(private val out: File, private val statuses: List<Int>) : AssetPackManager {
    private val arrived = HashSet<String>()
    private var listener: AssetPackStateUpdateListener? = null
    var fetched: Int = 0

    override fun fetch(packNames: List<String>): Task<AssetPackStates> {
        fetched += 1
        thread { for (name in packNames) for ((i, status) in statuses.withIndex()) tell(name, status, 5L * (i + 1)) }
        if (statuses.isEmpty()) return Tasks.forException(IllegalStateException("there is no store"))
        return Tasks.forResult(States(packNames))
    }

    private fun tell(name: String, status: Int, bytes: Long) {
        if (status == AssetPackStatus.COMPLETED) synchronized(arrived) { arrived += name }
        listener?.onStateUpdate(State(name, status, bytes))
    }

    override fun getPackLocation(packName: String): AssetPackLocation? {
        if (synchronized(arrived) { packName !in arrived }) return null
        return Location(File(out, "${packName.replace('_', '-')}/src/main/assets"))
    }

    override fun registerListener(listener: AssetPackStateUpdateListener) {
        this.listener = listener
    }

    override fun unregisterListener(listener: AssetPackStateUpdateListener) {
        this.listener = null
    }

    override fun clearListeners() {
        listener = null
    }

    override fun showConfirmationDialog(activity: Activity): Task<Int> = Tasks.forResult(Activity.RESULT_OK)

    override fun showConfirmationDialog(
        activityResultLauncher: ActivityResultLauncher<IntentSenderRequest>,
    ): Boolean = error("nothing asks this")

    @Deprecated("Deprecated in Java")
    override fun showCellularDataConfirmation(activity: Activity): Task<Int> = error("nothing asks this")

    @Deprecated("Deprecated in Java")
    override fun showCellularDataConfirmation(
        activityResultLauncher: ActivityResultLauncher<IntentSenderRequest>,
    ): Boolean = error("nothing asks this")

    override fun cancel(packNames: List<String>): AssetPackStates = error("nothing asks this")

    override fun getAssetLocation(packName: String, assetPath: String): AssetLocation? = error("nothing asks this")

    override fun getPackLocations(): Map<String, AssetPackLocation> = error("nothing asks this")

    override fun getPackStates(packNames: List<String>): Task<AssetPackStates> = error("nothing asks this")

    override fun removePack(packName: String): Task<Void> = error("nothing asks this")
}

/**
 * Asks each kind of delivery for the model, twice; a line says what to try, and a line says how it went.
 *
 * A line is: the kind, the app's home, and the exported project with statuses, or the address to download from.
 */
public fun main() {
    for (line in generateSequence(::readlnOrNull)) println(tried(line.split("\t")).replace('\n', ' '))
}

private fun tried(words: List<String>): String = try {
    val (kind, home, from) = words
    val context = StandInContext(File(home))
    val told = ArrayList<Pair<Long, Long>>()
    val store = if (kind == "assetpack") Store(File(from), words[3].split(",").mapNotNull(String::toIntOrNull)) else null
    StandInStore.play(store)
    val ask: () -> File = when (kind) {
        "assetpack" -> dev.msd.assetpack.Models(context).let { { it.folder { done, total -> told += done to total } } }
        "download" -> dev.msd.download.Models(context, from).let { { it.folder { done, total -> told += done to total } } }
        else -> dev.msd.assets.Models(context).let { { it.folder { done, total -> told += done to total } } }
    }
    val folder = ask()
    val (first, last) = told.size to told.lastOrNull()
    val manifest = Manifest.open(folder)
    Verify(File(home, "notes")).check(manifest, folder)
    check(ask() == folder && told.size == first) { "the second time it arrived again" }
    "$folder $last ${store?.fetched ?: 0} ${manifest.files.size}"
} catch (problem: RuntimeFailure) {
    "${problem.javaClass.simpleName}: ${problem.message}"
} catch (problem: Throwable) {
    "unexpected ${problem.stackTraceToString()}"
}
