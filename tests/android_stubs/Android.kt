/** Stubs of Android's classes, with the signatures of API level 36 that the sources use. */
package android.content

import android.content.res.Configuration
import java.io.File

abstract class Context {
    abstract val codeCacheDir: File
    abstract val noBackupFilesDir: File

    abstract fun <T> getSystemService(serviceClass: Class<T>): T

    abstract fun registerComponentCallbacks(callback: ComponentCallbacks)

    abstract fun unregisterComponentCallbacks(callback: ComponentCallbacks)
}

interface ComponentCallbacks {
    fun onConfigurationChanged(newConfig: Configuration)

    @Deprecated("Deprecated in Java")
    fun onLowMemory()
}

interface ComponentCallbacks2 : ComponentCallbacks {
    fun onTrimMemory(level: Int)

    companion object {
        const val TRIM_MEMORY_BACKGROUND: Int = 40
    }
}
