package dev.msd.delivery

import android.Manifest.permission
import android.app.Activity
import android.content.Context
import android.content.pm.PackageManager
import android.os.Build
import dev.msd.runtime.BadRequest
import dev.msd.runtime.Manifest
import java.io.File

/**
 * The model, downloaded from a web server and compared with the manifest in the app.
 *
 * [base] is the address of the export's download/, such as "https://example.com/sd-models/". One app has one model.
 */
public class Models internal constructor(context: Context, base: String, private val patience: Patience) {
    private val app: Context = context.applicationContext
    private val model = AppModel(app)
    private val base: String = if (base.endsWith("/")) base else "$base/"

    public constructor(context: Context, base: String) : this(context, base, Patience())

    init {
        if (!base.startsWith("https://") && !base.startsWith("http://")) {
            throw BadRequest("$base is no address of a web server; it should be like https://example.com/sd-models/")
        }
    }

    /** What the model is, whether its files are there yet or not; throws a RuntimeFailure for a damaged app. */
    public val manifest: Manifest get() = model.manifest

    /**
     * Returns the folder with the model's files; blocks while they are downloaded.
     *
     * A foreground service keeps the process alive meanwhile, if the app is visible now; should the process end all
     * the same, Android starts the service again. Throws a RuntimeFailure: Cancelled when the thread is interrupted
     * or the user cancels in the notification, NoSpace before the first byte if the disk is too small. What has
     * arrived stays, so that the next call goes on from there.
     */
    public fun folder(onArrival: OnArrival = OnArrival {}): File {
        model.pushed()?.let { return it }
        if (!model.isInstalled()) {
            val download = begin()
            FetchService.start(app, base)
            download.await(onArrival, owner = true)
        }
        return model.folder
    }

    /** As [folder]; cancelling the coroutine ends the download. */
    public suspend fun fetch(onArrival: OnArrival = OnArrival {}): File = interruptible { folder(onArrival) }

    /** Does nothing: only Google Play asks for consent. */
    @Suppress("UNUSED_PARAMETER")
    public fun askConsent(activity: Activity): Unit = Unit

    /**
     * Asks the user, from Android 13 on, to allow the notification of a download, where it can be cancelled while the
     * app is not visible; call it on the main thread before the first [fetch].
     */
    public fun askNotifications(activity: Activity) {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.TIRAMISU) return
        if (activity.checkSelfPermission(permission.POST_NOTIFICATIONS) == PackageManager.PERMISSION_GRANTED) return
        activity.requestPermissions(arrayOf(permission.POST_NOTIFICATIONS), 0)
    }

    /** Returns the download of the process, which begins here if there is none. */
    internal fun begin(): Fetch =
        Fetch.current { tell, stop -> Install(model, stop).run(tell, Web(base, stop, patience)) }
}
