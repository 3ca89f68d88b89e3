package @@{package}

import android.app.Activity
import android.net.Uri
import dev.msd.delivery.OnArrival
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Manifest
import dev.msd.runtime.OnProgress
import dev.msd.runtime.Pipeline
import java.io.File

/** What a [Studio] asks of the phone: [ThisPhone] in the app, a stand-in where there is none. */
public interface Phone {
    /** The manifest that came with the app; throws RuntimeFailure. */
    public val manifest: Manifest

    /** Throws BadDevice or NoGpu where this phone cannot run the model; blocks. */
    public fun check()

    /** Returns the folder with the model's files when they have all arrived; throws RuntimeFailure. */
    public suspend fun fetch(onArrival: OnArrival): File

    /** Asks the user to allow the notification of a download, where there is one. */
    public fun askNotifications(activity: Activity)

    /** Asks the user whether the model may be fetched over mobile data. */
    public fun askConsent(activity: Activity)

    /** Returns the model in [folder], ready to generate; blocks. Throws RuntimeFailure. */
    public fun open(folder: File, onProgress: OnProgress): Pipeline

    /** Returns the pixels of a photo at the model's size; blocks. Throws what reading it throws. */
    public fun read(address: Uri): IntArray

    /** Saves an image for the gallery as a PNG and returns its address; blocks. Throws IOException. */
    public fun save(image: GeneratedImage, name: String): Uri
}
