package dev.msd.runtime

import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException

/** An image on its way. */
public class Generation internal constructor() {
    private val result = CompletableFuture<GeneratedImage>()

    /**
     * Ends it: whoever waits gets [Cancelled] at once.
     *
     * What runs on the GPU at this moment, a step or a compilation, cannot be interrupted; nothing follows it.
     */
    public fun cancel() {
        fail(Cancelled("the image was cancelled"))
    }

    /** Waits for the image; throws the [RuntimeFailure] that ended it. An interrupt of the thread cancels it. */
    public fun await(): GeneratedImage = try {
        result.get()
    } catch (problem: ExecutionException) {
        throw problem.cause ?: problem
    } catch (problem: InterruptedException) {
        cancel()
        Thread.currentThread().interrupt()
        throw Cancelled("the image was cancelled: the thread that waited for it was interrupted")
    }

    internal fun finish(image: GeneratedImage) {
        result.complete(image)
    }

    internal fun fail(problem: Throwable) {
        result.completeExceptionally(problem)
    }

    /** Throws where it has ended already. */
    internal fun check() {
        if (result.isDone) throw Cancelled("the image was cancelled")
    }

    /** Calls [action] with the image or the failure, on the thread that ends it. */
    internal fun whenDone(action: (GeneratedImage?, Throwable?) -> Unit) {
        result.whenComplete { image, problem -> action(image, problem) }
    }
}
