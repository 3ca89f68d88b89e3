package dev.msd.delivery

import android.content.Context
import java.io.File

/** The model, part of the app: copied out of it once, because only a file can be mapped into memory. */
public class Models(private val context: Context) {
    /** Returns the folder with the model's files; blocks while they are copied the first time. Throws RuntimeFailure. */
    public fun folder(arrival: Arrival = Arrival { _, _ -> }): File =
        pushed(context) ?: installed(context, arrival) { context.assets.open("sd-models/$it") }
}
