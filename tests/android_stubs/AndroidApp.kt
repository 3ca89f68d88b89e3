/** A stub of android.app.Activity, as far as a sample uses it. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package android.app

import android.content.ComponentCallbacks
import android.content.Context
import android.os.Bundle
import android.view.View
import java.io.File

open class Activity : Context() {
    override val codeCacheDir: File get() = File("code_cache")
    override val noBackupFilesDir: File get() = File("no_backup")

    override fun <T> getSystemService(serviceClass: Class<T>): T = error("no service")

    override fun registerComponentCallbacks(callback: ComponentCallbacks) = Unit

    override fun unregisterComponentCallbacks(callback: ComponentCallbacks) = Unit

    val isDestroyed: Boolean get() = false

    protected open fun onCreate(savedInstanceState: Bundle?) = Unit

    protected open fun onDestroy() = Unit

    fun setContentView(layoutResID: Int) = Unit

    fun <T : View> findViewById(id: Int): T = error("no view")

    fun runOnUiThread(action: Runnable) = action.run()
}
