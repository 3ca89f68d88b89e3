package @@{package}

import android.app.Activity
import android.content.Context
import android.net.Uri
import dev.msd.delivery.Models
import dev.msd.delivery.OnArrival
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Hooks
import dev.msd.runtime.Manifest
import dev.msd.runtime.OnProgress
import dev.msd.runtime.Pipeline
import dev.msd.runtime.checkDevice
import dev.msd.runtime.openPipeline
import java.io.File

/** The phone that the app runs on; [context] is the application's. */
internal class ThisPhone(private val context: Context) : Phone {
    private val models: Models by lazy { Models(context@@{address}) }

    /** Pauses the pipeline while the phone is too warm, and frees memory when the phone runs out of it. */
    private var hooks: Hooks? = null

    override val manifest: Manifest get() = models.manifest

    override fun check(): Unit = checkDevice(context, manifest)

    override suspend fun fetch(onArrival: OnArrival): File = models.fetch(onArrival)

    override fun askNotifications(activity: Activity): Unit = models.askNotifications(activity)

    override fun askConsent(activity: Activity): Unit = models.askConsent(activity)

    override fun open(folder: File, onProgress: OnProgress): Pipeline {
        val pipeline = openPipeline(context, folder, onProgress)
        hooks?.close()
        hooks = Hooks(context, pipeline)
        return pipeline
    }

    override fun read(address: Uri): IntArray = Gallery(context).read(address, manifest)

    override fun save(image: GeneratedImage, name: String): Uri = Gallery(context).save(image, name)
}
