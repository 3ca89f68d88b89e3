package dev.msd.runtime

import android.content.ComponentCallbacks
import android.content.Context
import android.content.ContextWrapper
import android.content.res.AssetManager
import android.content.res.StandInAssets
import java.io.File

/** An app's context whose folders are in [home], its assets too; [services] are those of the device. */
public open class StandInContext(private val home: File) : ContextWrapper(null) {
    public val services: MutableMap<Class<*>, Any> = HashMap()
    public val callbacks: MutableList<ComponentCallbacks> = ArrayList()

    override fun getApplicationContext(): Context = this

    override fun getPackageName(): String = "com.example.played"

    override fun getAssets(): AssetManager = StandInAssets.of(File(home, "assets"))

    override fun getCacheDir(): File = folder("cache")

    override fun getCodeCacheDir(): File = folder("code_cache")

    override fun getFilesDir(): File = folder("files")

    override fun getNoBackupFilesDir(): File = folder("no_backup")

    override fun getSystemServiceName(serviceClass: Class<*>): String? = serviceClass.name

    override fun getSystemService(name: String): Any? = services.entries.find { it.key.name == name }?.value

    override fun registerComponentCallbacks(callback: ComponentCallbacks) {
        callbacks += callback
    }

    override fun unregisterComponentCallbacks(callback: ComponentCallbacks) {
        callbacks -= callback
    }

    private fun folder(name: String): File = File(home, name).apply { mkdirs() }
}
