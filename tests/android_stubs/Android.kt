/** Stubs of Android's classes, with the signatures of API level 36 that the sources use. */
package android.content

import android.content.res.AssetManager
import android.content.res.Configuration
import java.io.File

abstract class Context {
    abstract val codeCacheDir: File
    abstract val noBackupFilesDir: File
    open val filesDir: File get() = File(codeCacheDir.parentFile, "files")
    open val assets: AssetManager get() = AssetManager(File(codeCacheDir.parentFile, "assets"))

    abstract fun <T> getSystemService(serviceClass: Class<T>): T

    abstract fun registerComponentCallbacks(callback: ComponentCallbacks)

    abstract fun unregisterComponentCallbacks(callback: ComponentCallbacks)

    fun getString(resId: Int, vararg formatArgs: Any?): String = "$resId ${formatArgs.asList()}"
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
