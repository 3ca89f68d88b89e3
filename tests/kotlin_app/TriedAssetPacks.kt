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
import dev.msd.assetpack.Models
import dev.msd.assetpack.played
import org.json.JSONObject
import java.io.File

internal class State(private val name: String, private val said: Said) : AssetPackState() {
    override fun name(): String = name

    override fun status(): Int = said.status

    override fun errorCode(): Int = said.error

    override fun bytesDownloaded(): Long = said.bytes

    override fun totalBytesToDownload(): Long = BYTES

    override fun transferProgressPercentage(): Int = 0
}

private class States(private val said: Map<String, Said>) : AssetPackStates() {
    override fun packStates(): Map<String, AssetPackState> = said.mapValues { (name, it) -> State(name, it) }

    override fun totalBytes(): Long = BYTES * said.size
}

private class Location(private val folder: File) : AssetPackLocation() {
    override fun assetsPath(): String = folder.path

    override fun path(): String? = folder.parent

    override fun packStorageMethod(): Int = AssetPackStorageMethod.STORAGE_FILES
}

/** Says what the test has it say; it is asked as Play is, and notes that. */
internal class AssetStore(private val store: Store) : AssetPackManager {
    private val listeners = ArrayList<AssetPackStateUpdateListener>()

    override fun fetch(packNames: List<String>): Task<AssetPackStates> = store.answer("fetch", packNames, ::States)

    override fun getPackStates(packNames: List<String>): Task<AssetPackStates> =
        store.answer("states", packNames, ::States)

    override fun getPackLocation(packName: String): AssetPackLocation? = store.folder(packName)?.let(::Location)

    override fun cancel(packNames: List<String>): AssetPackStates {
        store.asked += "cancel"
        return States(packNames.associateWith { Said(AssetPackStatus.CANCELED) })
    }

    override fun registerListener(listener: AssetPackStateUpdateListener) {
        listeners += listener
        store.tell = { name, said -> listeners.toList().forEach { it.onStateUpdate(State(name, said)) } }
    }

    override fun unregisterListener(listener: AssetPackStateUpdateListener) {
        listeners -= listener
    }

    override fun showConfirmationDialog(activity: Activity): Task<Int> {
        store.asked += "dialog"
        return Tasks.forResult(Activity.RESULT_OK)
    }

    override fun showConfirmationDialog(
        activityResultLauncher: ActivityResultLauncher<IntentSenderRequest>,
    ): Boolean = error("nothing asks this")

    override fun clearListeners(): Unit = error("nothing asks this")

    @Deprecated("Deprecated in Java")
    override fun showCellularDataConfirmation(activity: Activity): Task<Int> = error("nothing asks this")

    @Deprecated("Deprecated in Java")
    override fun showCellularDataConfirmation(
        activityResultLauncher: ActivityResultLauncher<IntentSenderRequest>,
    ): Boolean = error("nothing asks this")

    override fun getAssetLocation(packName: String, assetPath: String): AssetLocation? = error("nothing asks this")

    override fun getPackLocations(): Map<String, AssetPackLocation> = error("nothing asks this")

    override fun removePack(packName: String): Task<Void> = error("nothing asks this")
}

internal fun assetPacks(context: TriedContext): Model = played(Models(context, store.patience))

/** Opens a store with an export's packs; nothing is there until it is told. */
internal fun play(command: JSONObject) {
    store = Store(File(command.getString("out")), command)
    StandInStore.play(AssetStore(store))
    com.google.android.play.core.aipacks.StandInStore.play(AiStore(store))
}
