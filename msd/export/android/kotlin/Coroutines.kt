package dev.msd.runtime

import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException

/** Returns the image of a request; a coroutine that is cancelled cancels it. Throws as [Generation.await] does. */
public suspend fun Pipeline.generate(request: Request, onProgress: OnProgress = OnProgress {}): GeneratedImage =
    suspendCancellableCoroutine { continuation ->
        val generation = start(request, onProgress)
        continuation.invokeOnCancellation { generation.cancel() }
        generation.whenDone { image, problem ->
            if (image != null) continuation.resume(image) else continuation.resumeWithException(problem!!)
        }
    }

/** Returns the progress of a request, and at last its image; collecting starts it, and ending that cancels it. */
public fun Pipeline.updates(request: Request): Flow<Update> = callbackFlow {
    val generation = start(request) { trySend(Update.Working(it)) }
    generation.whenDone { image, problem ->
        if (image != null) trySend(Update.Finished(image))
        close(problem)
    }
    awaitClose { generation.cancel() }
}.buffer(Channel.UNLIMITED)
