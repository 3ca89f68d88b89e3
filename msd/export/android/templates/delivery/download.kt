package dev.msd.delivery

import android.content.Context
import java.io.File
import java.net.URI

/** The model, downloaded from [base], a URL that ends in a slash, and held against the manifest in the app. */
public class Models(private val context: Context, private val base: String) {
    /**
     * Returns the folder with the model's files; blocks while they are downloaded the first time.
     *
     * Hold a foreground service of the type dataSync around it: Android ends background work. Throws RuntimeFailure;
     * called again, it downloads what is missing.
     */
    public fun folder(arrival: Arrival = Arrival { _, _ -> }): File =
        pushed(context) ?: installed(context, arrival) { URI(base + it).toURL().openStream() }
}
