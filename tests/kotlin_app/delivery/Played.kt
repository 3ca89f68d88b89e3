package dev.msd.delivery

import android.app.Activity
import dev.msd.tried.Model

/** What an app asks [models] for; a copy of this file is compiled with each delivery, in its package. */
internal fun played(models: Models): Model = Model(
    { models.askConsent(Activity()).let { models.manifest.model } },
    { tell -> models.folder { tell(words(it)) } },
    { tell -> models.fetch { tell(words(it)) } },
)

private fun words(arrival: Arrival): List<Any> = when (arrival) {
    is Arrival.Fetching -> listOf("fetching", arrival.done, arrival.total)
    is Arrival.Checking -> listOf("checking", arrival.done, arrival.total)
    Arrival.WaitingForWifi -> listOf("wifi")
    Arrival.NeedsConsent -> listOf("consent")
}
