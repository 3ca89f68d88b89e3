package dev.msd.delivery

import android.content.Context
import dev.msd.runtime.Manifest
import java.io.File

/** Told, on some thread, how many bytes of the model have arrived, and how many it has. */
public fun interface Arrival {
    public fun onBytes(done: Long, total: Long)
}

/** Returns the folder that install-to-device.sh fills, if it has. */
internal fun pushed(context: Context): File? =
    File(context.filesDir, "sd-models").takeIf { File(it, Manifest.NAME).isFile }
