/** Stubs of Play's assetpacks: `play` is the store that a test plays. */
@file:Suppress("unused")

package com.google.android.play.core.assetpacks

import android.content.Context
import com.google.android.gms.tasks.Task

abstract class AssetPackLocation {
    abstract fun assetsPath(): String?
}

abstract class AssetPackState {
    abstract fun name(): String

    abstract fun status(): Int

    abstract fun errorCode(): Int

    abstract fun bytesDownloaded(): Long

    abstract fun totalBytesToDownload(): Long
}

abstract class AssetPackStates {
    abstract fun packStates(): Map<String, AssetPackState>
}

fun interface AssetPackStateUpdateListener {
    fun onStateUpdate(state: AssetPackState)
}

interface AssetPackManager {
    fun fetch(packNames: List<String>): Task<AssetPackStates>

    fun getPackLocation(packName: String): AssetPackLocation?

    fun registerListener(listener: AssetPackStateUpdateListener)

    fun unregisterListener(listener: AssetPackStateUpdateListener)
}

object AssetPackManagerFactory {
    /** Not Play's. */
    @JvmField
    var play: AssetPackManager? = null

    @JvmStatic
    fun getInstance(context: Context): AssetPackManager = play ?: error("no store for $context")
}
