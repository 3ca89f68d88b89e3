package dev.msd.delivery

import android.app.Activity
import android.content.Context
import dev.msd.runtime.Manifest
import java.io.File

/** The model, part of the app: copied out of it once, because only a file can be mapped into memory. */
public class Models(context: Context) {
    private val app: Context = context.applicationContext
    private val model = AppModel(app)

    /** What the model is, whether its files are there yet or not; throws a RuntimeFailure for a damaged app. */
    public val manifest: Manifest get() = model.manifest

    /**
     * Returns the folder with the model's files; blocks while they are copied the first time.
     *
     * Throws a RuntimeFailure: Cancelled when the thread is interrupted, NoSpace if the disk is too small.
     */
    public fun folder(onArrival: OnArrival = OnArrival {}): File {
        model.pushed()?.let { return it }
        if (!model.isInstalled()) Fetch.current(::install).await(onArrival, owner = true)
        return model.folder
    }

    /** As [folder]; cancelling the coroutine ends it. */
    public suspend fun fetch(onArrival: OnArrival = OnArrival {}): File = interruptible { folder(onArrival) }

    /** Does nothing: only Google Play asks for consent. */
    @Suppress("UNUSED_PARAMETER")
    public fun askConsent(activity: Activity): Unit = Unit

    /** Does nothing: copying shows no notification. */
    @Suppress("UNUSED_PARAMETER")
    public fun askNotifications(activity: Activity): Unit = Unit

    private fun install(onArrival: OnArrival, stop: Stop) = Install(model, stop).run(onArrival) { part ->
        // Bytes of an APK are near: a file of which some have arrived is copied again.
        part.restart(null)
        app.assets.open("sd-models/${part.file.name}").use(part::take)
    }
}
