package dev.msd.delivery

import dev.msd.runtime.Cancelled
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.runInterruptible

/** How far a model is on its way to the device. */
public sealed interface Arrival {
    /** [done] of [total] bytes are on the device, those of earlier attempts among them. */
    public class Fetching(public val done: Long, public val total: Long) : Arrival

    /** Google Play waits for Wi-Fi, or for the user's consent to mobile data: `Models.askConsent` asks for it. */
    public object WaitingForWifi : Arrival

    /** Google Play waits for the user's consent: `Models.askConsent` asks for it. */
    public object NeedsConsent : Arrival

    /** [done] of [total] bytes have been compared with the manifest's SHA-256, once for each file. */
    public class Checking(public val done: Long, public val total: Long) : Arrival
}

/** Receives how far a model is, on a thread that fetches it; it should return soon. */
public fun interface OnArrival {
    public fun onArrival(arrival: Arrival)
}

/** Returns what [block] returns, on a thread that is interrupted when the coroutine is cancelled. */
internal suspend fun <T> interruptible(block: () -> T): T = try {
    runInterruptible(Dispatchers.IO, block)
} catch (problem: Cancelled) {
    // Coroutines expect their own exception where they were cancelled themselves.
    currentCoroutineContext().ensureActive()
    throw problem
}
