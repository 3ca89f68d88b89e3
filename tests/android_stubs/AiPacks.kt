/** Stubs of Play's aipacks: `play` is the store that a test plays. */
@file:Suppress("unused")

package com.google.android.play.core.aipacks

import android.content.Context
import com.google.android.gms.tasks.Task

abstract class AiPackLocation {
    abstract fun assetsPath(): String?
}

abstract class AiPackState {
    abstract fun name(): String

    abstract fun status(): Int

    abstract fun errorCode(): Int

    abstract fun bytesDownloaded(): Long

    abstract fun totalBytesToDownload(): Long
}

abstract class AiPackStates {
    abstract fun packStates(): Map<String, AiPackState>
}

fun interface AiPackStateUpdateListener {
    fun onStateUpdate(state: AiPackState)
}

interface AiPackManager {
    fun fetch(packNames: List<String>): Task<AiPackStates>

    fun getPackLocation(packName: String): AiPackLocation?

    fun registerListener(listener: AiPackStateUpdateListener)

    fun unregisterListener(listener: AiPackStateUpdateListener)
}

object AiPackManagerFactory {
    /** Not Play's. */
    @JvmField
    var play: AiPackManager? = null

    @JvmStatic
    fun getInstance(context: Context): AiPackManager = play ?: error("no store for $context")
}
