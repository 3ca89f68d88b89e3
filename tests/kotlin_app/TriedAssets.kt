package dev.msd.tried

import android.app.Activity
import dev.msd.assets.Arrival
import dev.msd.assets.Models

internal fun assets(context: TriedContext): Model {
    val models = Models(context)
    models.askConsent(Activity())
    return Model(
        { models.manifest.model },
        { tell -> models.folder { tell(words(it)) } },
        { tell -> models.fetch { tell(words(it)) } },
    )
}

private fun words(arrival: Arrival): List<Any> = when (arrival) {
    is Arrival.Fetching -> listOf("fetching", arrival.done, arrival.total)
    is Arrival.Checking -> listOf("checking", arrival.done, arrival.total)
    Arrival.WaitingForWifi -> listOf("wifi")
    Arrival.NeedsConsent -> listOf("consent")
}
