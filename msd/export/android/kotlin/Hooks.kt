package dev.msd.runtime

import android.content.ComponentCallbacks2
import android.content.Context
import android.content.res.Configuration
import android.os.Build
import android.os.PowerManager

/** Makes a pipeline rest while the device is too warm, and free the U-Net when memory runs out; until [close]. */
public class Hooks(
    private val context: Context,
    private val pipeline: Pipeline,
) : ComponentCallbacks2, AutoCloseable {
    private val power: PowerManager? = context.getSystemService(PowerManager::class.java)
    private val thermal: PowerManager.OnThermalStatusChangedListener? =
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            PowerManager.OnThermalStatusChangedListener { pipeline.rest = restFor(it) }
        } else {
            null
        }

    init {
        context.registerComponentCallbacks(this)
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q && thermal != null) {
            power?.addThermalStatusListener(thermal)
        }
    }

    override fun onTrimMemory(level: Int) {
        if (level >= ComponentCallbacks2.TRIM_MEMORY_BACKGROUND) pipeline.trim()
    }

    @Deprecated("Deprecated in Java")
    override fun onLowMemory(): Unit = pipeline.trim()

    override fun onConfigurationChanged(newConfig: Configuration): Unit = Unit

    override fun close() {
        context.unregisterComponentCallbacks(this)
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q && thermal != null) {
            power?.removeThermalStatusListener(thermal)
        }
    }
}

/** Returns for how many milliseconds to rest between two steps at a thermal status of PowerManager's. */
internal fun restFor(status: Int): Long = when {
    status >= PowerManager.THERMAL_STATUS_CRITICAL -> 2000
    status >= PowerManager.THERMAL_STATUS_SEVERE -> 500
    else -> 0
}
