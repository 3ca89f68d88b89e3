package dev.msd.tried

import android.app.ForegroundServiceStartNotAllowedException
import android.content.ComponentName
import android.content.Intent
import android.content.pm.ApplicationInfo
import android.content.pm.PackageManager
import android.content.res.Resources
import android.content.res.StandInResources
import dev.msd.runtime.StandInContext
import java.io.File
import java.util.concurrent.CopyOnWriteArrayList

/** An app in [home], built for users unless [debuggable]; what it asks Android to start is noted, and not started. */
internal class TriedContext(home: File, private val debuggable: Boolean) : StandInContext(home) {
    val started = CopyOnWriteArrayList<Intent>()

    /** In the background, Android starts no foreground service. */
    var isVisible = true

    override fun getApplicationInfo(): ApplicationInfo = ApplicationInfo().apply {
        flags = if (debuggable) ApplicationInfo.FLAG_DEBUGGABLE else 0
    }

    override fun getResources(): Resources = StandInResources()

    @Suppress("DEPRECATION")
    override fun getPackageManager(): PackageManager = object : PackageManager() {
        override fun getLaunchIntentForPackage(packageName: String): Intent = Intent(Intent.ACTION_MAIN)

        override fun hasSystemFeature(featureName: String): Boolean = false
    }

    override fun startForegroundService(service: Intent): ComponentName? {
        if (!isVisible) throw ForegroundServiceStartNotAllowedException("in the background")
        started += service
        return null
    }
}
