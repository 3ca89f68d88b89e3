package dev.msd.tried

import androidx.activity.result.ActivityResultLauncher
import androidx.activity.result.IntentSenderRequest
import com.google.android.gms.tasks.Task
import com.google.android.play.core.aipacks.AiAssetLocation
import com.google.android.play.core.aipacks.AiPackLocation
import com.google.android.play.core.aipacks.AiPackManager
import com.google.android.play.core.aipacks.AiPackState
import com.google.android.play.core.aipacks.AiPackStateUpdateListener
import com.google.android.play.core.aipacks.AiPackStates
import com.google.android.play.core.aipacks.model.AiPackStatus
import com.google.android.play.core.aipacks.model.AiPackStorageMethod
import dev.msd.aipack.Models
import dev.msd.aipack.played
import java.io.File

private class AiState(private val name: String, private val said: Said) : AiPackState() {
    override fun name(): String = name

    override fun status(): Int = said.status

    override fun errorCode(): Int = said.error

    override fun bytesDownloaded(): Long = said.bytes

    override fun totalBytesToDownload(): Long = BYTES

    override fun transferProgressPercentage(): Int = 0
}

private class AiStates(private val said: Map<String, Said>) : AiPackStates() {
    override fun packStates(): Map<String, AiPackState> = said.mapValues { (name, it) -> AiState(name, it) }

    override fun totalBytes(): Long = BYTES * said.size
}

private class AiLocation(private val folder: File) : AiPackLocation() {
    override fun assetsPath(): String = folder.path

    override fun path(): String? = folder.parent

    override fun packStorageMethod(): Int = AiPackStorageMethod.STORAGE_FILES
}

/** Says what the test has it say; it is asked as Play is, and notes that. */
internal class AiStore(private val store: Store) : AiPackManager {
    private val listeners = ArrayList<AiPackStateUpdateListener>()

    override fun fetch(packNames: List<String>): Task<AiPackStates> = store.answer("fetch", packNames, ::AiStates)

    override fun getPackStates(packNames: List<String>): Task<AiPackStates> =
        store.answer("states", packNames, ::AiStates)

    override fun getPackLocation(packName: String): AiPackLocation? = store.folder(packName)?.let(::AiLocation)

    override fun cancel(packNames: List<String>): AiPackStates {
        store.asked += "cancel"
        return AiStates(packNames.associateWith { Said(AiPackStatus.CANCELED) })
    }

    override fun registerListener(listener: AiPackStateUpdateListener) {
        listeners += listener
        store.tell = { name, said -> listeners.toList().forEach { it.onStateUpdate(AiState(name, said)) } }
    }

    override fun unregisterListener(listener: AiPackStateUpdateListener) {
        listeners -= listener
    }

    override fun showConfirmationDialog(
        activityResultLauncher: ActivityResultLauncher<IntentSenderRequest>,
    ): Boolean = error("nothing asks this")

    override fun clearListeners(): Unit = error("nothing asks this")

    override fun getAiAssetLocation(packName: String, assetPath: String): AiAssetLocation = error("nothing asks this")

    override fun getPackLocations(): Map<String, AiPackLocation> = error("nothing asks this")

    override fun removePack(packName: String): Task<Void> = error("nothing asks this")
}

internal fun aiPacks(context: TriedContext): Model = played(Models(context, store.patience))
