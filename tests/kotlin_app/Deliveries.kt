package dev.msd.tried

import android.content.ComponentCallbacks
import android.content.Context
import com.google.android.gms.tasks.Task
import com.google.android.play.core.assetpacks.AssetPackLocation
import com.google.android.play.core.assetpacks.AssetPackManager
import com.google.android.play.core.assetpacks.AssetPackManagerFactory
import com.google.android.play.core.assetpacks.AssetPackState
import com.google.android.play.core.assetpacks.AssetPackStateUpdateListener
import com.google.android.play.core.assetpacks.AssetPackStates
import com.google.android.play.core.assetpacks.model.AssetPackStatus
import dev.msd.runtime.Manifest
import dev.msd.runtime.RuntimeFailure
import dev.msd.runtime.Verify
import java.io.File
import kotlin.concurrent.thread

/** An app whose folders are in [home]: its assets are there too. */
private class App(private val home: File) : Context() {
    override val codeCacheDir: File = File(home, "code_cache")
    override val noBackupFilesDir: File = File(home, "no_backup").apply { mkdirs() }

    override fun <T> getSystemService(serviceClass: Class<T>): T = error("no service")

    override fun registerComponentCallbacks(callback: ComponentCallbacks): Unit = Unit

    override fun unregisterComponentCallbacks(callback: ComponentCallbacks): Unit = Unit
}

private class State(private val name: String, private val status: Int, private val bytes: Long) : AssetPackState() {
    override fun name(): String = name

    override fun status(): Int = status

    override fun errorCode(): Int = if (status == AssetPackStatus.FAILED) -6 else 0

    override fun bytesDownloaded(): Long = bytes

    override fun totalBytesToDownload(): Long = 15
}

/** Delivers the packs of an exported project, [out], each by way of [statuses]; none at all without these. */
private class Store(private val out: File, private val statuses: List<Int>) : AssetPackManager {
    private val arrived = HashSet<String>()
    private var listener: AssetPackStateUpdateListener? = null
    var fetched: Int = 0

    override fun fetch(packNames: List<String>): Task<AssetPackStates> {
        fetched += 1
        thread { for (name in packNames) for ((i, status) in statuses.withIndex()) tell(name, status, 5L * (i + 1)) }
        return Task {
            check(statuses.isNotEmpty()) { "there is no store" }
            object : AssetPackStates() {
                override fun packStates() = packNames.associateWith { State(it, AssetPackStatus.PENDING, 0) }
            }
        }
    }

    private fun tell(name: String, status: Int, bytes: Long) {
        if (status == AssetPackStatus.COMPLETED) synchronized(arrived) { arrived += name }
        listener?.onStateUpdate(State(name, status, bytes))
    }

    override fun getPackLocation(packName: String): AssetPackLocation? {
        if (synchronized(arrived) { packName !in arrived }) return null
        return object : AssetPackLocation() {
            override fun assetsPath() = File(out, "${packName.replace('_', '-')}/src/main/assets").path
        }
    }

    override fun registerListener(listener: AssetPackStateUpdateListener) {
        this.listener = listener
    }

    override fun unregisterListener(listener: AssetPackStateUpdateListener) {
        this.listener = null
    }
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
    val context = App(File(home))
    val told = ArrayList<Pair<Long, Long>>()
    val store = if (kind == "assetpack") Store(File(from), words[3].split(",").mapNotNull(String::toIntOrNull)) else null
    AssetPackManagerFactory.play = store
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
