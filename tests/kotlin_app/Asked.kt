package dev.msd.tried

import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import java.io.File
import java.util.concurrent.ConcurrentLinkedQueue
import kotlin.concurrent.thread

/** The `Models` of some delivery, each of which has a package of its own here; an arrival is a list of words. */
internal class Model(
    val name: () -> String,
    val folder: ((List<Any>) -> Unit) -> File,
    val fetch: suspend ((List<Any>) -> Unit) -> File,
)

/** A model asked for, in a coroutine or on a thread of its own, which [isInterrupted] before it begins. */
internal class Asked(
    private val model: Model,
    private val isSuspending: Boolean,
    private val isInterrupted: Boolean,
) {
    val arrivals = ConcurrentLinkedQueue<List<Any>>()
    private val job = Job()
    private val outcome = CompletableDeferred<File>()
    private val thread = thread(isDaemon = true) { if (isSuspending) suspending() else blocking() }

    private fun blocking() {
        if (isInterrupted) Thread.currentThread().interrupt()
        try {
            outcome.complete(model.folder(arrivals::add))
        } catch (problem: Throwable) {
            if (Thread.currentThread().isInterrupted) arrivals.add(listOf("interrupted"))
            outcome.completeExceptionally(problem)
        }
    }

    private fun suspending() = runBlocking {
        launch(job + Dispatchers.Default) {
            try {
                outcome.complete(model.fetch(arrivals::add))
            } catch (problem: Throwable) {
                outcome.completeExceptionally(problem)
                throw problem
            }
        }.join()
    }

    /** Cancels as an app would; for a coroutine it waits until that has ended. */
    fun cancel() {
        if (isSuspending) runBlocking { job.cancelAndJoin() } else thread.interrupt()
    }

    /** Waits, and returns the folder or throws what ended it. */
    fun result(): String = runBlocking { outcome.await().path }
}
